//! Registers an [`Offload`] with mio.

use std::io;

use mio::event::Source;
use mio::{Interest, Registry, Token};

use super::Offload;

/// mio watches the socket inside. Needs the feature `mio`.
///
/// ```
/// use mio::{Interest, Poll, Token, net::UdpSocket};
/// use mmsg::Offload;
///
/// let poll = Poll::new()?;
/// let mut socket = Offload::new(UdpSocket::bind("127.0.0.1:0".parse().unwrap())?)?;
/// poll.registry().register(&mut socket, Token(0), Interest::READABLE)?;
/// // While a `SendQueue` holds datagrams that the socket did not accept:
/// poll.registry().reregister(&mut socket, Token(0), Interest::READABLE | Interest::WRITABLE)?;
/// # Ok::<(), std::io::Error>(())
/// ```
impl<S: Source> Source for Offload<S> {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        self.socket.register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        self.socket.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}

//! The client of the servers in this package.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mmsg::{RecvBatch, SendMsg, prelude::*};

/// How many datagrams [`ask`] wants back.
pub const COUNT: usize = 1000;

/// Sends [`COUNT`] datagrams, 50 at a time, and checks that they come back.
pub fn ask(server: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut batch = RecvBatch::new(50, 1500);
    for first in (0..COUNT).step_by(50) {
        let payloads: Vec<_> = (first..first + 50).map(|n| n.to_be_bytes()).collect();
        socket.send_iter(payloads.iter().map(|data| SendMsg::to(server, data)))?;
        let mut expected = payloads.iter();
        while expected.len() > 0 {
            socket.recv_into(&mut batch)?;
            for datagram in batch.iter() {
                assert_eq!(Some(datagram.data()), expected.next().map(|data| &data[..]));
            }
        }
    }
    Ok(())
}

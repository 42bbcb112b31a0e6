//! The calls that receive and send.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::BufMut;
use mmsg::{AsyncBatchSocket, Message, RecvMeta, RecvMsg, SendMsg};
use tokio::io::{Interest, ReadBuf};
use tokio::net::{self, ToSocketAddrs};

use super::UdpSocket;
use crate::shared::Call;

/// For each receive: the call that waits, the one that does not, and perhaps one for a task to poll.
macro_rules! receives {
    ($($name:ident, $try_name:ident $(<$generic:ident>)? ($($buf:ident: $type:ty)?) -> $result:ty = $make:expr, $peeks:literal
        $(, $poll_name:ident ($($poll_buf:ident)?) -> $polled:ty = $poll:expr, $map:expr)?;)*) => {
        #[allow(unused_parens)] // A receive without a buffer gets `()`.
        impl UdpSocket {$(
            #[doc = concat!("As tokio's [`", stringify!($name), "`](net::UdpSocket::", stringify!($name), ").")]
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn $name $(<$generic: BufMut>)? (&self $(, mut $buf: $type)?) -> io::Result<$result> {
                self.shared.receive(&mut ($($buf)?), &Call { plain: |socket, ($($buf)?)| socket.$try_name($($buf)?), make: $make, peeks: $peeks }).await
            }

            #[doc = concat!("As tokio's [`", stringify!($try_name), "`](net::UdpSocket::", stringify!($try_name), ").")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no datagram; else the system's error.
            pub fn $try_name $(<$generic: BufMut>)? (&self $(, mut $buf: $type)?) -> io::Result<$result> {
                self.shared.try_receive(&mut ($($buf)?), &Call { plain: |socket, ($($buf)?)| socket.$try_name($($buf)?), make: $make, peeks: $peeks })
            }
            $(
                #[doc = concat!("As tokio's [`", stringify!($poll_name), "`](net::UdpSocket::", stringify!($poll_name), "): the task of the last call is woken.")]
                ///
                /// # Errors
                ///
                /// The system's error.
                pub fn $poll_name(&self, cx: &mut Context<'_> $(, mut $poll_buf: &mut ReadBuf<'_>)?) -> Poll<io::Result<$polled>> {
                    self.shared.poll_receive(cx, &mut ($($poll_buf)?), &Call { plain: $poll, make: $make, peeks: $peeks }).map_ok($map)
                }
            )?
        )*}
    };
}

receives! {
    recv, try_recv(buf: &mut [u8]) -> usize = put, false,
        poll_recv(buf) -> () = |socket, buf| socket.try_recv_buf(buf), drop;
    recv_from, try_recv_from(buf: &mut [u8]) -> (usize, SocketAddr) = put_from, false,
        poll_recv_from(buf) -> SocketAddr = |socket, buf| socket.try_recv_buf_from(buf), |(_, from)| from;
    recv_buf, try_recv_buf<B>(buf: &mut B) -> usize = put, false;
    recv_buf_from, try_recv_buf_from<B>(buf: &mut B) -> (usize, SocketAddr) = put_from, false;
    peek, try_peek(buf: &mut [u8]) -> usize = put, true,
        poll_peek(buf) -> () = |socket, buf| Ok(peek(socket, buf)?.0), drop;
    peek_from, try_peek_from(buf: &mut [u8]) -> (usize, SocketAddr) = put_from, true,
        poll_peek_from(buf) -> SocketAddr = |socket, buf| peek(socket, buf), |(_, from)| from;
    peek_sender, try_peek_sender() -> SocketAddr = |(), _, message| source(message), true,
        poll_peek_sender() -> SocketAddr = |socket, ()| socket.try_peek_sender(), |from| from;
}

/// Receives with metadata.
impl UdpSocket {
    /// Receives a datagram with the metadata that the program has turned on
    /// ([`Ancillary::require`](mmsg::Ancillary)). Otherwise like [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn recv_meta(&self, mut buf: &mut [u8]) -> io::Result<(usize, SocketAddr, RecvMeta)> {
        let plain = |socket: &net::UdpSocket, buf: &mut &mut [u8]| {
            let mut msgs = [RecvMsg::new(buf)];
            let call = || socket.batch_call(&mut |socket| socket.recv_batch(&mut msgs));
            socket.try_io(Interest::READABLE, call)?;
            let message = msgs[0].message();
            Ok((message.data().len(), source(&message)?, *message.meta()))
        };
        let make = |buf: &mut &mut [u8], data: &[u8], message: &Message<'_>| {
            let (len, from) = put_from(buf, data, message)?;
            let mut meta = *message.meta();
            meta.segment_size = None; // A datagram of a coalesced message has no segments.
            Ok((len, from, meta))
        };
        self.shared.receive(&mut buf, &Call { plain, make, peeks: false }).await
    }
}

type LenFrom = (usize, SocketAddr);

/// Without growing the buffer: like a receive, it drops the rest.
fn put(buf: &mut impl BufMut, data: &[u8], _: &Message<'_>) -> io::Result<usize> {
    let len = data.len().min(buf.chunk_mut().len());
    buf.put_slice(&data[..len]);
    Ok(len)
}

fn put_from(buf: &mut impl BufMut, data: &[u8], message: &Message<'_>) -> io::Result<LenFrom> {
    Ok((put(buf, data, message)?, source(message)?))
}

/// The kernel reports the source of each datagram.
fn source(message: &Message<'_>) -> io::Result<SocketAddr> {
    message.addr().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn peek(socket: &net::UdpSocket, buf: &mut ReadBuf<'_>) -> io::Result<LenFrom> {
    let (len, from) = socket.try_peek_from(buf.initialize_unfilled())?;
    buf.advance(len);
    Ok((len, from))
}

/// Sends, at once or through the queue.
impl UdpSocket {
    /// As tokio's [`send`](net::UdpSocket::send), or queues the datagram.
    ///
    /// # Errors
    ///
    /// The system's error, also about an earlier datagram of `send` that was queued.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.shared.send(&SendMsg::new(buf), || self.plain().send(buf)).await
    }

    /// As tokio's [`send_to`](net::UdpSocket::send_to), or queues the datagram.
    ///
    /// # Errors
    ///
    /// The system's error, also about an earlier datagram to this destination that was queued.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        if self.offload().is_none() {
            return self.plain().send_to(buf, addr).await;
        }
        let nowhere =
            || io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to");
        let target = net::lookup_host(addr).await?.next().ok_or_else(nowhere)?;
        let msg = SendMsg::to(target, buf);
        self.shared.send(&msg, || self.plain().send_to(buf, target)).await
    }

    /// Sends a message with settings of its own, such as the source address of an answer
    /// ([`RecvMeta::reply_meta`](mmsg::RecvMeta)), or queues it. Returns its length.
    ///
    /// # Errors
    ///
    /// The errors of [`send_to`](Self::send_to).
    pub async fn send_msg(&self, msg: &SendMsg<'_>) -> io::Result<usize> {
        let plain = || async { self.plain().send_batch(&[*msg]).await.map(|_| msg.len()) };
        self.shared.send(msg, plain).await
    }

    /// As tokio's [`try_send`](net::UdpSocket::try_send), or queues the datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket, or the queue and the socket, are full; else the errors of [`send`](Self::send).
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        let queued = self.shared.queue(&SendMsg::new(buf), false)?;
        if queued { Ok(buf.len()) } else { self.plain().try_send(buf) }
    }

    /// As tokio's [`try_send_to`](net::UdpSocket::try_send_to), or queues the datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket, or the queue and the socket, are full; else the errors of
    /// [`send_to`](Self::send_to).
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        let queued = self.shared.queue(&SendMsg::to(target, buf), false)?;
        if queued { Ok(buf.len()) } else { self.plain().try_send_to(buf, target) }
    }

    /// As tokio's [`poll_send`](net::UdpSocket::poll_send), or queues the datagram. The task of the last call is woken.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.poll_send(cx, &SendMsg::new(buf), |cx| self.plain().poll_send(cx, buf))
    }

    /// As tokio's [`poll_send_to`](net::UdpSocket::poll_send_to), or queues the datagram. The task of the last call is
    /// woken.
    ///
    /// # Errors
    ///
    /// The errors of [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        let plain = |cx: &mut Context<'_>| self.plain().poll_send_to(cx, buf, target);
        self.shared.poll_send(cx, &SendMsg::to(target, buf), plain)
    }
}

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
    ($($name:ident, $try_name:ident $(<$generic:ident>)? ($buf:ty) -> $result:ty = $make:expr, $peeks:literal
        $(, $poll_name:ident -> $polled:ty = $poll:expr, $map:expr)?;)*) => {
        impl UdpSocket {$(
            #[doc = concat!("As tokio's [`", stringify!($name), "`](net::UdpSocket::", stringify!($name), ").")]
            ///
            /// # Errors
            ///
            /// The system's error.
            pub async fn $name $(<$generic: BufMut>)? (&self, mut buf: $buf) -> io::Result<$result> {
                self.shared.receive(&mut buf, &Call { plain: |socket, buf| socket.$try_name(buf), make: $make, peeks: $peeks }).await
            }

            #[doc = concat!("As tokio's [`", stringify!($try_name), "`](net::UdpSocket::", stringify!($try_name), ").")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no datagram; else the system's error.
            pub fn $try_name $(<$generic: BufMut>)? (&self, mut buf: $buf) -> io::Result<$result> {
                self.shared.try_receive(&mut buf, &Call { plain: |socket, buf| socket.$try_name(buf), make: $make, peeks: $peeks })
            }
            $(
                #[doc = concat!("As tokio's [`", stringify!($poll_name), "`](net::UdpSocket::", stringify!($poll_name), "): the task of the last call is woken.")]
                ///
                /// # Errors
                ///
                /// The system's error.
                pub fn $poll_name(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<$polled>> {
                    self.shared.poll_receive(cx, buf, &Call { plain: $poll, make: $make, peeks: $peeks }).map_ok($map)
                }
            )?
        )*}
    };
}

receives! {
    recv, try_recv(&mut [u8]) -> usize = |len, _| Ok(len), false,
        poll_recv -> () = |socket, buf| socket.try_recv_buf(buf), drop;
    recv_from, try_recv_from(&mut [u8]) -> (usize, SocketAddr) = len_and_source, false,
        poll_recv_from -> SocketAddr = |socket, buf| socket.try_recv_buf_from(buf), |(_, from)| from;
    recv_buf, try_recv_buf<B>(&mut B) -> usize = |len, _| Ok(len), false;
    recv_buf_from, try_recv_buf_from<B>(&mut B) -> (usize, SocketAddr) = len_and_source, false;
    peek, try_peek(&mut [u8]) -> usize = |len, _| Ok(len), true,
        poll_peek -> () = |socket, buf| Ok(peek(socket, buf)?.0), drop;
    peek_from, try_peek_from(&mut [u8]) -> (usize, SocketAddr) = len_and_source, true,
        poll_peek_from -> SocketAddr = peek, |(_, from)| from;
}

const PEEK_SENDER: Call<&mut [u8], SocketAddr> = Call {
    plain: |socket, _| socket.try_peek_sender(),
    make: |_, message| source(message),
    peeks: true,
};

/// Receives for the sender's address, and for metadata.
impl UdpSocket {
    /// As tokio's [`peek_sender`](net::UdpSocket::peek_sender).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.shared.receive(&mut &mut [][..], &PEEK_SENDER).await
    }

    /// As tokio's [`try_peek_sender`](net::UdpSocket::try_peek_sender).
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no datagram; else the system's error.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.shared.try_receive(&mut &mut [][..], &PEEK_SENDER)
    }

    /// As tokio's [`poll_peek_sender`](net::UdpSocket::poll_peek_sender): the task of the last call is woken.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.shared.poll_receive(cx, &mut &mut [][..], &PEEK_SENDER)
    }

    /// Receives a datagram with the metadata that the program has turned on
    /// ([`Ancillary::require`](mmsg::Ancillary)). Otherwise like [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    ///
    /// The system's error.
    pub async fn recv_meta(&self, mut buf: &mut [u8]) -> io::Result<(usize, SocketAddr, RecvMeta)> {
        let plain = |socket: &net::UdpSocket, buf: &mut &mut [u8]| {
            let mut msgs = [RecvMsg::new(buf)];
            let mut call = || socket.batch_call(&mut |socket| socket.recv_batch(&mut msgs));
            socket.try_io(Interest::READABLE, &mut call)?;
            let message = msgs[0].message();
            Ok((message.data().len(), source(&message)?, *message.meta()))
        };
        let make = |len, message: &Message<'_>| {
            let mut meta = *message.meta();
            meta.segment_size = None; // A datagram of a coalesced message has no segments.
            Ok((len, source(message)?, meta))
        };
        self.shared.receive(&mut buf, &Call { plain, make, peeks: false }).await
    }
}

fn len_and_source(len: usize, message: &Message<'_>) -> io::Result<(usize, SocketAddr)> {
    Ok((len, source(message)?))
}

/// The kernel reports the source of each datagram.
fn source(message: &Message<'_>) -> io::Result<SocketAddr> {
    message.addr().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn peek(socket: &net::UdpSocket, buf: &mut ReadBuf<'_>) -> io::Result<(usize, SocketAddr)> {
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
        match self.shared.queue_later(&SendMsg::new(buf)).await {
            Some(result) => result,
            None => self.plain().send(buf).await,
        }
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
        match self.shared.queue_later(&SendMsg::to(target, buf)).await {
            Some(result) => result,
            None => self.plain().send_to(buf, target).await,
        }
    }

    /// Sends a message with settings of its own, such as the source address of an answer
    /// ([`RecvMeta::reply_meta`](mmsg::RecvMeta)), or queues it. Returns its length.
    ///
    /// # Errors
    ///
    /// The errors of [`send_to`](Self::send_to).
    pub async fn send_msg(&self, msg: &SendMsg<'_>) -> io::Result<usize> {
        match self.shared.queue_later(msg).await {
            Some(result) => result,
            None => self.plain().send_batch(&[*msg]).await.map(|_| msg.len()),
        }
    }

    /// As tokio's [`try_send`](net::UdpSocket::try_send), or queues the datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket, or the queue and the socket, are full; else the errors of [`send`](Self::send).
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.shared.queue(&SendMsg::new(buf), false).unwrap_or_else(|| self.plain().try_send(buf))
    }

    /// As tokio's [`try_send_to`](net::UdpSocket::try_send_to), or queues the datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket, or the queue and the socket, are full; else the errors of
    /// [`send_to`](Self::send_to).
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        let queued = self.shared.queue(&SendMsg::to(target, buf), false);
        queued.unwrap_or_else(|| self.plain().try_send_to(buf, target))
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

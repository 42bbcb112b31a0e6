//! The socket under quinn's endpoints.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mmsg::{AsyncBatchSocket, Offload, SendWaiter};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::net::UdpSocket;

use crate::convert::{send_meta, send_msg};
use crate::socket::{MAX_COALESCED, Socket};

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller { socket: Arc::clone(&self.socket), waiter: SendWaiter::new() })
    }

    /// Sends at once, with one system call unless the system rejects a GSO batch. The only error is `WouldBlock`.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let meta = send_meta(transmit);
        let msg = send_msg(transmit, &meta);
        // Not tokio's `try_io`: after a refusal that no event follows, it would make no call for ever.
        let (mut once, mut waiter) = (Context::from_waker(Waker::noop()), SendWaiter::new());
        match self.socket.poll_send_batch(&mut once, &mut waiter, &[msg]) {
            Poll::Pending => return Err(io::ErrorKind::WouldBlock.into()),
            Poll::Ready(Err(error)) => self.note_failure(&error, transmit),
            Poll::Ready(Ok(_)) => {}
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.receive(cx, bufs, metas)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.state().max_segments()
    }

    fn max_receive_segments(&self) -> usize {
        if self.socket.state().gro() { MAX_COALESCED } else { 1 }
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }
}

/// Waits until the socket is writable, for one connection. quinn asks before every send, and usually the socket is
/// writable.
#[derive(Debug)]
struct Poller {
    socket: Arc<Offload<UdpSocket>>,
    waiter: SendWaiter,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, waiter } = self.get_mut();
        // No system call: tokio remembers that the socket is writable.
        socket.poll_send_batch(cx, waiter, &[]).map_ok(drop)
    }
}

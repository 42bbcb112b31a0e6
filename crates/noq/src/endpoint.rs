//! The socket under noq's endpoints.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mmsg::{AsyncBatchSocket, SendWaiter};
use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

use crate::convert::{send_meta, send_msg};
use crate::socket::{MAX_COALESCED, Socket};

impl AsyncUdpSocket for Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Sender { socket: self.clone(), waiter: SendWaiter::new() })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.receive(cx, bufs, metas)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(if self.socket.state().gro() { MAX_COALESCED } else { 1 })
            .unwrap_or(NonZeroUsize::MIN)
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }
}

/// Sends for one connection, and waits while the socket is full.
#[derive(Debug)]
struct Sender {
    socket: Socket,
    waiter: SendWaiter,
}

impl UdpSender for Sender {
    /// Sends at once, with one system call unless the system rejects a GSO batch.
    fn poll_send(
        self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, waiter } = self.get_mut();
        let meta = send_meta(transmit);
        let msg = send_msg(transmit, &meta);
        if let Err(error) = ready!(socket.socket.poll_send_batch(cx, waiter, &[msg])) {
            socket.note_failure(&error, transmit);
        }
        Poll::Ready(Ok(()))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.socket.socket.state().max_segments()).unwrap_or(NonZeroUsize::MIN)
    }
}

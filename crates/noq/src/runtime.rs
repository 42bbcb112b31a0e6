//! Tokio as the runtime of quinn's and noq's endpoints. mmsg-quinn and mmsg-noq each have a copy of this file.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::time::Instant;

use mmsg::Offload;
use mmsg::offload::OffloadBuilder;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};

use crate::{Pointer, Socket};

/// Timers, tasks and the clock are tokio's.
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime {
    offload: OffloadBuilder,
}

impl TokioRuntime {
    /// A runtime whose sockets have these offloads. `default()` turns all of them on.
    #[must_use]
    pub const fn new(offload: OffloadBuilder) -> Self {
        Self { offload }
    }
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self::new(Offload::builder())
    }
}

impl Runtime for TokioRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        quinn::TokioRuntime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        quinn::TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Pointer<dyn AsyncUdpSocket>> {
        Ok(Pointer::new(Socket::new(socket, self.offload)?))
    }

    fn now(&self) -> Instant {
        quinn::TokioRuntime.now()
    }
}

//! The feature `tokio`: batch calls as futures.

#![cfg_attr(not(target_os = "linux"), allow(unused_imports))] // Some are only used by Linux' tests.

mod errors;
mod fair;
#[cfg(unix)]
mod full;
// Elsewhere a receive does not always hear that nothing more is there.
#[cfg(target_os = "linux")]
mod idle;
mod kinds;
mod polls;
mod stand_ins;
mod until;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::task::Poll;

use mmsg::{AsyncBatchSocket, BatchSocket};
use tokio::net::UdpSocket;
use tokio::task::coop::unconstrained;

use crate::common::{TIME_LIMIT, sockets};

/// Runs a test on a single-threaded runtime, within the time limit.
pub fn run<R>(test: impl Future<Output = R>) -> R {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let limited = async { tokio::time::timeout(TIME_LIMIT, test).await.expect("it ends") };
    runtime.expect("a runtime").block_on(limited)
}

/// A socket on IPv4 loopback, and its address.
pub fn udp() -> (UdpSocket, SocketAddr) {
    let socket = sockets::udp4();
    let addr = sockets::addr(&socket);
    (adopted(socket), addr)
}

pub fn adopted(socket: std::net::UdpSocket) -> UdpSocket {
    socket.set_nonblocking(true).expect("an open socket");
    UdpSocket::from_std(socket).expect("in a runtime")
}

/// A call as an implementation gets it: it sends or receives on the socket that it is called with.
type Call<'c> = dyn FnMut(&dyn BatchSocket) -> io::Result<usize> + 'c;

/// A socket of another type than tokio's. `through` makes its calls, or only claims to.
pub struct Through<F> {
    socket: UdpSocket,
    through: F,
}

pub fn through<F>(socket: UdpSocket, through: F) -> Through<F>
where
    F: Fn(&UdpSocket, &mut Call<'_>) -> io::Result<usize> + Send + Sync,
{
    Through { socket, through }
}

impl<F> AsyncBatchSocket for Through<F>
where
    F: Fn(&UdpSocket, &mut Call<'_>) -> io::Result<usize> + Send + Sync,
{
    type Socket = UdpSocket;

    fn tokio_socket(&self) -> &UdpSocket {
        &self.socket
    }

    fn batch_call(&self, call: &mut Call<'_>) -> io::Result<usize> {
        (self.through)(&self.socket, call)
    }
}

/// Two connected Unix sockets, whose sender can meet a full buffer. UDP on loopback hardly ever does, and tokio treats
/// both alike.
#[cfg(unix)]
pub fn narrow() -> (UdpSocket, UdpSocket) {
    let (a, b) = sockets::unix_pair();
    (adopted(OwnedFd::from(a).into()), adopted(OwnedFd::from(b).into()))
}

/// Polls a future once and registers this task to be woken. What this task has left of tokio's budget does not matter: the
/// future waits only for the socket.
pub async fn once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    let mut future = pin!(unconstrained(future));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

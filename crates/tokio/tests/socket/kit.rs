//! Sockets, and bursts.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mmsg_tokio::UdpSocket;
use tokio::net;
use tokio::runtime::{Builder, Runtime};
use tokio::task;

use crate::common::sockets::settle;

/// More than a burst, and more than are answered at once.
pub const MANY: usize = 20;

pub fn runtime(threads: usize) -> Runtime {
    let mut builder = match threads {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads.max(1)).enable_all().build().expect("a runtime")
}

/// Ends with a panic in place of hanging.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(300), future).await.expect("it ends soon")
}

/// A socket, and a client connected to it.
pub async fn quiet() -> (Arc<UdpSocket>, net::UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
    let to = socket.local_addr().expect("it is bound");
    let client = net::UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
    client.connect(to).await.expect("connecting only stores the peer");
    (Arc::new(socket), client, to)
}

/// Like [`quiet`], after a burst.
pub async fn busy() -> (Arc<UdpSocket>, net::UdpSocket, SocketAddr) {
    let made = quiet().await;
    while made.0.offload().is_none() {
        arrive(&made.1, MANY).await;
        for _ in 0..MANY {
            soon(made.0.recv(&mut [0; 8])).await.expect("it arrived");
        }
    }
    made
}

/// Sends numbered datagrams, and waits until they have arrived.
pub async fn arrive(client: &net::UdpSocket, count: usize) {
    for number in 0..count {
        client.send(&(number as u32).to_be_bytes()).await.expect("loopback takes it");
    }
    settle();
}

/// The next datagram's number.
pub async fn number(socket: &UdpSocket) -> usize {
    let mut data = [0; 4];
    assert_eq!(soon(socket.recv(&mut data)).await.expect("a datagram"), 4);
    u32::from_be_bytes(data) as usize
}

/// Receives a whole batch, and returns the sender.
pub async fn receive(socket: &UdpSocket, count: usize) -> SocketAddr {
    let mut from = None;
    for index in 0..count {
        let (_, sender) = soon(socket.recv_from(&mut [0; 8])).await.expect("it arrived");
        assert!(from.replace(sender).is_none_or(|last| last == sender), "{index}");
    }
    from.expect("at least one")
}

/// Receives datagrams in a task, which goes on with the socket and their sender.
pub async fn in_task<F: Future<Output = ()> + Send + 'static>(
    socket: &Arc<UdpSocket>,
    client: &net::UdpSocket,
    count: usize,
    then: impl FnOnce(Arc<UdpSocket>, SocketAddr) -> F + Send + 'static,
) {
    arrive(client, count).await;
    let socket = socket.clone();
    let task = task::spawn(async move {
        let from = receive(&socket, count).await;
        then(socket, from).await;
    });
    task.await.expect("it ends");
}

/// Receives answers of this length.
pub async fn answers(client: &net::UdpSocket, count: usize, len: usize) {
    for _ in 0..count {
        assert_eq!(soon(client.recv(&mut [0; 8])).await.expect("an answer"), len);
    }
}

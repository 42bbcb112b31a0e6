//! A path that drops datagrams, the same ones for the same seed and traffic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::UdpSocket;

use crate::kit::Numbers;

pub struct Relay {
    addr: SocketAddr,
    dropped: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    /// Starts a relay between one client, the first that sends, and `server`. It drops `percent` of the datagrams in
    /// each direction.
    pub async fn start(server: SocketAddr, percent: u32, seed: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
        let addr = socket.local_addr().expect("a bound socket");
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let task = tokio::spawn(async move {
            let (mut numbers, mut client, mut buffer) = (Numbers(seed), None, [0; 2048]);
            loop {
                let Ok((len, from)) = socket.recv_from(&mut buffer).await else { continue };
                let to = if from == server { client } else { Some(server) };
                client = if from == server { client } else { Some(from) };
                if numbers.next() % 100 < percent {
                    counter.fetch_add(1, Ordering::Relaxed);
                } else if let Some(to) = to {
                    let _ = socket.send_to(&buffer[..len], to).await;
                }
            }
        });
        Self { addr, dropped, task }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! Batches behind a trait that moves one datagram at a time, such as those of domain's, turn's or hickory's sockets.
//!
//! ```text
//! cargo run --release --features tokio --example one_at_a_time
//! ```
//!
//! A receive takes a batch, and hands out its datagrams, also those of a coalesced message. What a task leaves of a batch is
//! for the task that asks next. As with tokio's `poll_recv_from`, only the task that asked last is woken: let one task
//! receive. The receive charges the whole batch to the budget of its task, so the task yields before the next batch.
//!
//! Any number of tasks send, by the queue of `shared_sender.rs`, which counts the errors. The answers to a batch of few
//! datagrams are sent at once: for them, waking the flusher costs more than a batch saves. They may overtake what it sends. The program answers 64
//! datagrams.

#[allow(dead_code, unused_imports)]
#[path = "shared_sender.rs"]
pub mod shared_sender;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::{future::poll_fn, io, net::SocketAddr};

use mmsg::{Offload, RecvBatch, SendMsg, prelude::*};
use shared_sender::{Sender, common};
use tokio::{io::ReadBuf, net::UdpSocket, task::JoinHandle};

/// The longest batch whose answers are sent at once.
const FEW: usize = 4;

pub struct OneAtATime {
    pub socket: Arc<Offload<UdpSocket>>,
    received: Mutex<Received>,
    sender: Sender,
}

struct Received {
    batch: RecvBatch,
    /// The next datagram: the index of its message, and its place in it.
    next: (usize, usize),
    /// How many datagrams may still be sent at once.
    at_once: usize,
}

impl OneAtATime {
    /// Also returns the flusher, which sends what is queued, ends once the socket is dropped, and says how many datagrams
    /// failed.
    pub fn new(socket: UdpSocket) -> io::Result<(Self, JoinHandle<usize>)> {
        let socket = Arc::new(Offload::new(socket)?);
        let received = Received { batch: RecvBatch::for_gro(16), next: (0, 0), at_once: 0 };
        let (sender, flusher) = Sender::start(socket.clone(), 1 << 20);
        Ok((Self { socket, received: Mutex::new(received), sender }, flusher))
    }

    /// The next datagram of the batch, if one is left. A short `buf` truncates it.
    pub fn try_recv_from(&self, buf: &mut ReadBuf<'_>) -> Option<SocketAddr> {
        let Received { batch, next, .. } = &mut *self.received.lock().unwrap();
        while let Some(message) = batch.message(next.0) {
            let mut datagrams = message.datagrams();
            let datagram = datagrams.nth(next.1);
            *next = if datagrams.len() == 0 { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
            let Some(datagram) = datagram.filter(|d| !d.truncated()) else { continue };
            let Some(from) = datagram.addr() else { continue };
            buf.put_slice(&datagram.data()[..datagram.len().min(buf.remaining())]);
            return Some(from);
        }
        None
    }

    /// Waits for a batch, if nothing is left of the last one.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut received = self.received.lock().unwrap();
        if received.batch.message(received.next.0).is_some() {
            return Poll::Ready(Ok(()));
        }
        let count = ready!(self.socket.poll_recv_into(cx, &mut received.batch))?;
        let datagrams = received.batch.datagram_count();
        (received.next, received.at_once) = ((0, 0), if datagrams <= FEW { datagrams } else { 0 });
        let shut_down = || Err(io::ErrorKind::UnexpectedEof.into());
        Poll::Ready(if count == 0 { shut_down() } else { Ok(()) })
    }

    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        loop {
            if let Some(from) = self.try_recv_from(buf) {
                return Poll::Ready(Ok(from));
            }
            ready!(self.poll_readable(cx))?;
        }
    }

    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        data: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        let mut received = self.received.lock().unwrap();
        if received.at_once > 0 && self.sender.is_empty() {
            received.at_once -= 1;
            match self.socket.get_ref().try_send_to(data, to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
        let sent = self.sender.poll_send(cx, &SendMsg::to(to, data));
        sent.map(|result| result.map(|()| data.len()).map_err(io::Error::from))
    }
}

#[tokio::main]
async fn main() -> common::Result {
    common::no_arguments();
    let (socket, flusher) = OneAtATime::new(UdpSocket::bind("127.0.0.1:0").await?)?;
    let client = UdpSocket::bind("127.0.0.1:0").await?;
    client.connect(socket.socket.get_ref().local_addr()?).await?;
    client.send_batch(&[SendMsg::new(&[7; 1200]); 64]).await?;
    let mut memory = [0; 1500];
    for _ in 0..64 {
        let mut buf = ReadBuf::new(&mut memory);
        let from = poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)).await?;
        poll_fn(|cx| socket.poll_send_to(cx, buf.filled(), from)).await?;
    }
    drop(socket);
    println!("64 datagrams answered, {} failed", flusher.await?);
    Ok(())
}

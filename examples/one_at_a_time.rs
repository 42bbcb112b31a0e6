//! Batches behind a trait that moves one datagram at a time, such as quinn's, domain's or webrtc's sockets: any number of
//! tasks call `poll_recv_from(&self)` and `poll_send_to(&self)`.
//!
//! ```text
//! cargo run --release --features tokio --example one_at_a_time
//! ```
//!
//! A receive takes a batch, and hands out its datagrams, also those of a coalesced message. All tasks that wait are woken
//! when a batch comes, and whichever asks next gets the next datagram: what is left when one of them goes is for the
//! others. The receive charges the whole batch to the budget of its task, so the task yields before the next batch. Sends go
//! to the queue of `shared_sender.rs`; their errors are counted there. The program echoes 64 datagrams with two tasks.

// The other example has its own.
#![allow(clippy::duplicate_mod)]

mod common;

#[allow(dead_code, unused_imports)]
#[path = "shared_sender.rs"]
pub mod shared_sender;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::{future::poll_fn, io, mem};

use mmsg::{Offload, RecvBatch, SendMsg, prelude::*};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

pub struct OneAtATime {
    socket: Arc<Offload<UdpSocket>>,
    received: Mutex<Received>,
    waiting: Arc<Waiting>,
    sender: shared_sender::Sender,
}

struct Received {
    batch: RecvBatch,
    /// The next datagram: the index of its message, and its place in it.
    next: (usize, usize),
}

/// The tasks that wait for a batch.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut waiting = self.0.lock().unwrap();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn wake_others(&self, waker: &Waker) {
        let waiting = mem::take(&mut *self.0.lock().unwrap());
        waiting.into_iter().filter(|other| !other.will_wake(waker)).for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_others(Waker::noop());
    }
}

impl Received {
    /// Moves the next datagram to `buf`, which truncates it if it is too short.
    fn pop(&mut self, buf: &mut ReadBuf<'_>) -> Option<SocketAddr> {
        while let Some(message) = self.batch.message(self.next.0) {
            let Some(datagram) = message.datagrams().nth(self.next.1) else {
                self.next = (self.next.0 + 1, 0);
                continue;
            };
            self.next.1 += 1;
            let Some(from) = datagram.addr().filter(|_| !datagram.truncated()) else { continue };
            buf.put_slice(&datagram.data()[..datagram.len().min(buf.remaining())]);
            return Some(from);
        }
        None
    }
}

impl OneAtATime {
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        let socket = Arc::new(Offload::new(socket)?);
        let received = Received { batch: RecvBatch::for_gro(16), next: (0, 0) };
        let (sender, _) = shared_sender::Sender::start(socket.clone(), 1 << 20);
        Ok(Self { socket, received: Mutex::new(received), waiting: Arc::default(), sender })
    }

    /// The next datagram of the batch, if one is left.
    pub fn try_recv_from(&self, buf: &mut ReadBuf<'_>) -> Option<SocketAddr> {
        self.received.lock().unwrap().pop(buf)
    }

    /// Waits for a batch, if nothing is left of the last one.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut received = self.received.lock().unwrap();
        if received.batch.message(received.next.0).is_some() {
            return Poll::Ready(Ok(()));
        }
        self.waiting.add(cx.waker());
        let waker = Waker::from(self.waiting.clone());
        let count = ready!(
            self.socket.poll_recv_into(&mut Context::from_waker(&waker), &mut received.batch)
        );
        received.next = (0, 0);
        self.waiting.wake_others(cx.waker());
        match count? {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())), // Shut down.
            _ => Poll::Ready(Ok(())),
        }
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
        let sent = self.sender.poll_send(cx, &SendMsg::to(to, data));
        sent.map(|result| result.map(|()| data.len()).map_err(io::Error::from))
    }
}

async fn echo(socket: Arc<OneAtATime>) -> io::Result<()> {
    let mut memory = [0; 1500];
    loop {
        let mut buf = ReadBuf::new(&mut memory);
        let from = poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)).await?;
        poll_fn(|cx| socket.poll_send_to(cx, buf.filled(), from)).await?;
    }
}

#[tokio::main]
async fn main() -> common::Result {
    common::no_arguments();
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let to = socket.local_addr()?;
    let socket = Arc::new(OneAtATime::new(socket)?);
    (0..2).for_each(|_| drop(tokio::spawn(echo(socket.clone()))));

    let client = Offload::new(UdpSocket::bind("127.0.0.1:0").await?)?;
    client.send_each([SendMsg::to(to, &[7; 1200]); 64], |_, error| eprintln!("{error}")).await?;
    let (mut batch, mut echoed) = (RecvBatch::for_gro(16), 0);
    while echoed < 64 {
        client.recv_into(&mut batch).await?;
        echoed += batch.datagram_count();
    }
    println!("{echoed} datagrams echoed");
    Ok(())
}

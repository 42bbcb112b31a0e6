//! How the load generator's datagrams go out and come in: one at a time, or in batches.

use std::io;
use std::net::UdpSocket;
use std::time::Instant;

use mmsg::{BatchSocketExt, RecvBatch, SendMsg};

use crate::cli::{Mode, Way};
use crate::counters::Counters;
use crate::offloaded::{EchoSocket, Offloaded, moved_by};
use crate::payload::Payload;

/// A connected socket and the memory to use it with.
pub trait Client {
    /// Sends datagrams from number `first` on, up to `count`, and returns how many.
    fn send(&mut self, first: u64, count: usize) -> io::Result<usize>;

    /// Waits for replies and hands each to `each`, with the time at which it was there.
    fn receive(&mut self, each: &mut dyn FnMut(&[u8], Instant)) -> io::Result<()>;

    /// What offload has done, if there is any.
    fn offloaded(&self) -> Option<Offloaded> {
        None
    }
}

/// The client that does it this way.
pub fn new<'a>(
    way: Way,
    socket: &'a UdpSocket,
    payload: &'a Payload,
    counters: &'a Counters,
) -> io::Result<Box<dyn Client + Send + 'a>> {
    let room = room(payload.size());
    Ok(match way.mode {
        Mode::Std => Box::new(OneByOne::new(socket, payload, counters)),
        Mode::Batch => Box::new(InBatches::new(socket, payload, counters, room)),
        Mode::Offload => {
            let socket = way.offload().build(socket)?;
            let room = if socket.gro() { TRAIN } else { room };
            Box::new(InBatches::new(socket, payload, counters, room))
        }
    })
}

/// By the standard library, one at a time.
pub struct OneByOne<'a> {
    socket: &'a UdpSocket,
    payload: &'a Payload,
    counters: &'a Counters,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl<'a> OneByOne<'a> {
    pub fn new(socket: &'a UdpSocket, payload: &'a Payload, counters: &'a Counters) -> Self {
        let size = payload.size();
        Self { socket, payload, counters, out: vec![0; size], back: vec![0; room(size)] }
    }
}

impl Client for OneByOne<'_> {
    fn send(&mut self, first: u64, count: usize) -> io::Result<usize> {
        if count == 0 {
            return Ok(0);
        }
        self.payload.write(first, &mut self.out);
        self.socket.send(&self.out)?;
        self.counters.sent.add(1);
        self.counters.calls.add(1);
        Ok(1)
    }

    fn receive(&mut self, each: &mut dyn FnMut(&[u8], Instant)) -> io::Result<()> {
        let len = self.socket.recv(&mut self.back)?;
        let now = Instant::now();
        self.counters.received.add(1);
        self.counters.calls.add(1);
        each(&self.back[..len], now);
        Ok(())
    }
}

/// By this crate, in batches.
pub struct InBatches<'a, S> {
    socket: S,
    payload: &'a Payload,
    counters: &'a Counters,
    out: Vec<u8>,
    back: RecvBatch,
}

/// Datagrams that a call carries at most.
pub const BATCH: usize = 64;

/// Room for any train.
const TRAIN: usize = 65_535;

impl<'a, S> InBatches<'a, S> {
    pub fn new(socket: S, payload: &'a Payload, counters: &'a Counters, room: usize) -> Self {
        let out = vec![0; BATCH * payload.size()];
        Self { socket, payload, counters, out, back: RecvBatch::new(BATCH, room) }
    }
}

impl<S: EchoSocket> Client for InBatches<'_, S> {
    fn send(&mut self, first: u64, count: usize) -> io::Result<usize> {
        let (count, size) = (count.min(BATCH), self.payload.size());
        for i in 0..count {
            self.payload.write(first + i as u64, &mut self.out[i * size..][..size]);
        }
        let mut msgs = (0..count).map(|i| SendMsg::new(&self.out[i * size..][..size]));
        let sent = moved_by(&self.socket, || self.socket.send_iter(&mut msgs))?;
        self.counters.sent.add(sent.messages);
        self.counters.calls.add(sent.calls);
        Ok(sent.messages)
    }

    fn receive(&mut self, each: &mut dyn FnMut(&[u8], Instant)) -> io::Result<()> {
        let received = moved_by(&self.socket, || self.socket.recv_into(&mut self.back))?;
        let now = Instant::now();
        let mut count = 0;
        for reply in &self.back {
            count += 1;
            each(reply.data(), now);
        }
        self.counters.received.add(count);
        self.counters.calls.add(received.calls);
        Ok(())
    }

    fn offloaded(&self) -> Option<Offloaded> {
        self.socket.offloaded()
    }
}

/// Room for a reply: a byte more than was sent, so that a longer one is seen to be longer.
fn room(size: usize) -> usize {
    size + 1
}

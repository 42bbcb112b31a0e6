//! An echo server on epoll, by hand.
//!
//! ```text
//! cargo run --release -p loops --bin epoll
//! ```
//!
//! Edge-triggered: an event says that something has changed, so each direction goes on until `WouldBlock`. The
//! socket is a type of the program's own, whose calls go by its descriptor.

use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::{io, thread};

use mmsg::{RecvBatch, SendQueue, prelude::*};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

struct Server {
    socket: UdpSocket,
    batch: RecvBatch,
    replies: SendQueue,
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Server {
    /// Receives and answers until one or the other would wait, and returns how many were received.
    fn turn(&mut self) -> io::Result<usize> {
        let mut received = 0;
        loop {
            let Self { socket, batch, replies } = self;
            let report = |_: &_, error| eprintln!("reply: {error}");
            while !replies.is_empty() {
                match socket.as_fd().flush_each(replies, report) {
                    // What is left waits for the event that says that there is space.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(received),
                    result => result?,
                };
            }
            match socket.as_fd().recv_into(batch) {
                Ok(count) => received += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(received),
                Err(error) => eprintln!("receive: {error}"), // The batch is empty.
            }
            for reply in batch.iter().filter_map(|datagram| datagram.reply(datagram.data())) {
                replies.push(&reply)?;
            }
        }
    }
}

fn main() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    let addr = socket.local_addr()?;
    let (batch, replies) = (RecvBatch::new(64, 1500), SendQueue::for_batch(64, 1500));
    let mut server = Server { socket, batch, replies };

    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let both = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
    epoll::add(&epoll, &server, EventData::new_u64(0), both)?;
    let client = thread::spawn(move || loops::ask(addr));
    let (mut received, mut events) = (0, Vec::with_capacity(16));
    while received < loops::COUNT {
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        events.clear();
        received += server.turn()?;
    }
    client.join().expect("no panic")?;
    println!("{received} datagrams came back");
    Ok(())
}

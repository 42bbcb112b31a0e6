//! An echo server that never waits, and a client for it, shared by the programs in `src/bin`.
//!
//! A program makes its socket non-blocking, calls [`Echo::turn`], and waits for the returned event. The programs
//! differ only in how they wait.
//!
//! Not for the Internet: anybody's "end" ends the server, a flood keeps a turn from ending, and another echo server would
//! answer it for ever.

#[path = "../../../examples/common/mod.rs"]
pub mod common;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mmsg::{BatchSocket, RecvBatch, SendQueue};

/// What a server waits for before its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Readable,
    Writable,
    /// Nothing: the client has all its echoes.
    End,
}

/// An echo server that leaves waiting to its caller.
pub struct Echo {
    batch: RecvBatch,
    /// Echoes that the socket has not accepted yet. Until it has, the server receives nothing.
    queue: SendQueue,
    ends: bool,
}

impl Default for Echo {
    fn default() -> Self {
        // For the longest datagrams.
        let (batch, queue) = (RecvBatch::new(64, 65_535), SendQueue::for_batch(64, 65_535));
        Self { batch, queue, ends: false }
    }
}

impl Echo {
    /// Receives and answers until the socket has no more datagrams or accepts none. An edge-triggered loop needs
    /// this: it reports a waiting datagram only once.
    ///
    /// # Errors
    ///
    /// None: no datagram ends the server.
    pub fn turn(&mut self, socket: &impl BatchSocket) -> Wait {
        // Datagrams may have come since the last turn.
        let mut drained = false;
        loop {
            match socket.flush(&mut self.queue) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Wait::Writable,
                // The error is about the first datagram in the queue.
                Err(_) => drop(self.queue.discard_front()),
            }
            if !self.queue.is_empty() {
                continue;
            }
            if self.ends {
                return Wait::End;
            }
            if drained {
                return Wait::Readable;
            }
            match socket.recv_into(&mut self.batch) {
                Ok(_) => self.answer(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Wait::Readable,
                Err(error) => {
                    eprintln!("receive: {error}");
                    thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
                }
            }
            drained = self.batch.drained();
        }
    }

    fn answer(&mut self) {
        for datagram in &self.batch {
            self.ends |= datagram.data() == END;
            if let Some(reply) = datagram.reply(datagram.data()) {
                self.queue.push(&reply).expect("the queue is as long as the batch");
            }
        }
    }
}

const END: &[u8] = b"end";

/// Sends 1,000 datagrams, 50 at a time, and checks that each comes back.
pub fn client(server: SocketAddr) -> JoinHandle<io::Result<usize>> {
    thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut buffer = [0; 1500];
        let mut echoes = 0;
        for first in (0..1000_u16).step_by(50) {
            (first..first + 50).try_for_each(|i| socket.send(&i.to_be_bytes()).map(drop))?;
            for i in first..first + 50 {
                let len = socket.recv(&mut buffer)?;
                assert_eq!(buffer[..len], i.to_be_bytes(), "in order and whole");
                echoes += 1;
            }
        }
        socket.send(END)?;
        socket.recv(&mut buffer)?;
        Ok(echoes)
    })
}

/// A non-blocking socket on loopback, and its client. The program has no arguments.
///
/// # Errors
///
/// The error of `bind`.
pub fn start() -> io::Result<(UdpSocket, JoinHandle<io::Result<usize>>)> {
    common::no_arguments();
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    let client = client(socket.local_addr()?);
    Ok((socket, client))
}

/// Prints the client's result.
///
/// # Errors
///
/// The client's.
pub fn finish(client: JoinHandle<io::Result<usize>>) -> io::Result<()> {
    let echoes = client.join().map_err(|_| io::Error::other("the client panicked"))??;
    println!("{echoes} echoes");
    Ok(())
}

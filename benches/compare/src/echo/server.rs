//! The servers. Each thread sends every datagram back to its source. Threads have a socket each, all on one port
//! (`SO_REUSEPORT`).

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::thread;

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg, options};
use mmsg_reuseport::ReusePortGroup;
use socket2::Socket;

use super::network::Network;
use crate::child::Server;
use crate::load::{COALESCED_LEN, SLOT_LEN};

pub const WAYS: [&str; 4] = ["std", "tokio", "mmsg", "mmsg Offload"];

/// Receive buffer that holds all datagrams under way.
pub const BUFFER: usize = 8 << 20;
/// Messages per receive.
const SLOTS: usize = 64;

/// Starts server `number` in its network.
pub fn start(way: &'static str, threads: usize, net: Network, number: usize) -> io::Result<Server> {
    net.place(number, |addr| {
        Server::start(way, &["serve", way, &threads.to_string(), &addr.to_string()], 1)
    })
}

/// The server's side: serves until stdin closes.
pub fn main(way: &str, threads: usize, ip: IpAddr) -> io::Result<()> {
    let prepare = |socket: &Socket| options::set_recv_buffer(socket, BUFFER).map(drop);
    let group = ReusePortGroup::builder((ip, 0).into()).members(threads).prepare(prepare).bind()?;
    let addr = group.local_addr();
    for socket in group {
        let serve = match way {
            "std" => by_std,
            "tokio" => by_tokio,
            "mmsg" => by_mmsg,
            "mmsg Offload" => by_offload,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        thread::spawn(move || match serve(socket) {
            Ok(never) => match never {},
            Err(error) => {
                eprintln!("compare: a server failed: {error}");
                std::process::exit(1);
            }
        });
    }
    println!("{addr}");
    // Returns, and ends the threads, when the other side closes stdin or ends.
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

/// `recv_from` and `send_to`, one after the other.
pub fn by_std(socket: UdpSocket) -> io::Result<Infallible> {
    let mut buffer = vec![0; SLOT_LEN];
    loop {
        let (len, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..len], from)?;
    }
}

/// The same with tokio, on a runtime of this thread alone, so that it wakes no other thread.
fn by_tokio(socket: UdpSocket) -> io::Result<Infallible> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        let mut buffer = vec![0; SLOT_LEN];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).await?;
            socket.send_to(&buffer[..len], from).await?;
        }
    })
}

fn by_mmsg(socket: UdpSocket) -> io::Result<Infallible> {
    in_batches(&socket, RecvBatch::new(SLOTS, SLOT_LEN))
}

fn by_offload(socket: UdpSocket) -> io::Result<Infallible> {
    in_batches(&Offload::new(socket)?, RecvBatch::new(SLOTS, COALESCED_LEN))
}

/// The documentation's server: receives a batch and sends it back from the same memory.
pub fn in_batches(socket: &impl BatchSocket, mut batch: RecvBatch) -> io::Result<Infallible> {
    loop {
        socket.recv_into(&mut batch)?;
        let replies = batch.iter().filter_map(|d| Some(SendMsg::to(d.addr()?, d.data())));
        socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    }
}

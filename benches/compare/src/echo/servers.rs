//! The echo servers, each in a process of its own.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::thread;

use mmsg::{AsyncBatchSocket, BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;

use super::calls;
use crate::load::{COALESCED_LEN, SLOT_LEN};
use crate::process::Server;

/// Messages of a receive.
const SLOTS: usize = 64;
/// Messages of a receive into memory for coalesced messages.
const COALESCED_SLOTS: usize = 16;
/// Messages of a receive where each of many sockets has memory of its own.
const FEW: usize = 4;

/// What drives a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    CurrentThread,
    MultiThread,
    /// A thread, without tokio.
    Blocking,
}

impl Flavor {
    pub const ALL: [Self; 3] = [Self::CurrentThread, Self::MultiThread, Self::Blocking];

    pub fn name(self) -> &'static str {
        match self {
            Self::CurrentThread => "current_thread",
            Self::MultiThread => "multi_thread",
            Self::Blocking => "blocking",
        }
    }
}

/// The servers of a runtime with so many sockets. The first is what the others are compared with.
pub fn ways(flavor: Flavor, sockets: usize) -> Vec<&'static str> {
    match flavor {
        Flavor::Blocking => vec!["std", "mmsg", "mmsg Offload"],
        _ if sockets > 1 => {
            vec!["tokio", "mmsg-tokio", "quinn-udp", "mmsg", "mmsg one batch", "mmsg Offload"]
        }
        _ => vec!["tokio", "mmsg-tokio", "quinn-udp", "mmsg", "mmsg Offload"],
    }
}

/// Starts the server of one way.
pub fn start(way: &'static str, flavor: Flavor, sockets: usize) -> io::Result<Server> {
    Server::start(way, &["serve", way, flavor.name(), &sockets.to_string()], sockets)
}

/// The server's side: serves until stdin closes, and answers each line with the number of its calls.
pub fn main(way: &str, flavor: &str, sockets: usize) -> io::Result<()> {
    // The runtime has some, too.
    raise_open_files(sockets as u64 + 100)?;
    let bind = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        mmsg::options::set_recv_buffer(&socket, 8 << 20)?;
        Ok(socket)
    };
    let sockets = (0..sockets).map(bind).collect::<io::Result<Vec<_>>>()?;
    let addrs: Vec<_> =
        sockets.iter().map(|s| s.local_addr().map(|a| a.to_string())).collect::<Result<_, _>>()?;
    let (way, flavor) = (way.to_string(), flavor.to_string());
    thread::spawn(move || {
        let Err(error) = serve(&way, &flavor, sockets);
        eprintln!("compare: a server failed: {error}");
        std::process::exit(1);
    });
    println!("{}", addrs.join(" "));
    for line in io::stdin().lines() {
        line?;
        println!("{}", calls::count());
    }
    Ok(())
}

/// Raises the limit of open files.
fn raise_open_files(files: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the struct.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur = limit.rlim_max.min(files.max(limit.rlim_cur));
    // SAFETY: the call reads the struct.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn serve(way: &str, flavor: &str, sockets: Vec<UdpSocket>) -> io::Result<Infallible> {
    let mut builder = match flavor {
        "multi_thread" => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        }
        "current_thread" => tokio::runtime::Builder::new_current_thread(),
        _ => return blocking(way, sockets),
    };
    let runtime = builder.enable_all().build()?;
    runtime.block_on(async {
        let few = sockets.len() > 1;
        let mut tasks = tokio::task::JoinSet::new();
        for socket in sockets {
            tasks.spawn(task(way, socket, few));
        }
        // None ends but by an error.
        if let Some(ended) = tasks.join_next().await {
            match ended.map_err(io::Error::other)?? {}
        }
        Err(io::Error::other("no sockets"))
    })
}

type Task = Pin<Box<dyn Future<Output = io::Result<Infallible>> + Send>>;

/// A socket's server. With `few`, its memory holds few datagrams.
pub fn task(way: &str, socket: UdpSocket, few: bool) -> Task {
    let slots = move |many| if few { FEW } else { many };
    match way {
        "tokio" => Box::pin(async { by_tokio(own(socket)?).await }),
        "mmsg-tokio" => Box::pin(async { by_mmsg_tokio(own(socket)?.into()).await }),
        "quinn-udp" => Box::pin(by_quinn_udp(socket, slots(quinn_udp::BATCH_SIZE))),
        "mmsg" => {
            Box::pin(
                async move { by_mmsg(own(socket)?, RecvBatch::new(slots(SLOTS), SLOT_LEN)).await },
            )
        }
        "mmsg one batch" => Box::pin(by_one_batch(socket)),
        "mmsg Offload" => Box::pin(async move {
            let batch = RecvBatch::new(slots(COALESCED_SLOTS), COALESCED_LEN);
            by_offload(Offload::new(own(socket)?)?, batch).await
        }),
        _ => panic!("no such way: {way}"),
    }
}

fn own(socket: UdpSocket) -> io::Result<tokio::net::UdpSocket> {
    socket.set_nonblocking(true)?;
    tokio::net::UdpSocket::from_std(socket)
}

/// The same code on both types of socket.
macro_rules! one_by_one {
    ($name:ident, $socket:ty) => {
        async fn $name(socket: $socket) -> io::Result<Infallible> {
            let mut buffer = vec![0; SLOT_LEN];
            loop {
                let (len, from) = socket.recv_from(&mut buffer).await?;
                socket.send_to(&buffer[..len], from).await?;
            }
        }
    };
}
one_by_one!(by_tokio, tokio::net::UdpSocket);
one_by_one!(by_mmsg_tokio, mmsg_tokio::UdpSocket);

/// As quinn's runtime uses it.
async fn by_quinn_udp(socket: UdpSocket, slots: usize) -> io::Result<Infallible> {
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let socket = own(socket)?;
    let mut memory = vec![vec![0; COALESCED_LEN]; slots];
    let mut metas = vec![RecvMeta::default(); slots];
    loop {
        socket.readable().await?;
        let mut buffers: Vec<_> = memory.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let received = socket.try_io(Interest::READABLE, || {
            state.recv(UdpSockRef::from(&socket), &mut buffers, &mut metas)
        });
        let received = match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            received => received?,
        };
        for (meta, buffer) in metas[..received].iter().zip(&memory) {
            let transmit = Transmit {
                destination: meta.addr,
                ecn: None,
                contents: &buffer[..meta.len],
                segment_size: (meta.stride < meta.len).then_some(meta.stride),
                src_ip: None,
            };
            loop {
                socket.writable().await?;
                let sent = socket.try_io(Interest::WRITABLE, || {
                    state.try_send(UdpSockRef::from(&socket), &transmit)
                });
                match sent {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    sent => break sent?,
                }
            }
        }
    }
}

/// A function for each type of socket: in a generic one rustc does not see that the future of `send_each` is `Send`.
macro_rules! in_batches {
    ($name:ident, $socket:ty) => {
        async fn $name(socket: $socket, mut batch: RecvBatch) -> io::Result<Infallible> {
            loop {
                socket.recv_into(&mut batch).await?;
                let replies = batch.iter().filter_map(|d| Some(SendMsg::to(d.addr()?, d.data())));
                socket.send_each(replies, |_, error| eprintln!("reply: {error}")).await?;
            }
        }
    };
}
in_batches!(by_mmsg, tokio::net::UdpSocket);
in_batches!(by_offload, Offload<tokio::net::UdpSocket>);

thread_local! {
    /// The batch of all sockets of a thread.
    static BATCH: RefCell<RecvBatch> = RefCell::new(RecvBatch::new(SLOTS, SLOT_LEN));
}

/// As the guide shows it for many sockets with few datagrams each.
async fn by_one_batch(socket: UdpSocket) -> io::Result<Infallible> {
    let socket = own(socket)?;
    loop {
        socket.readable().await?;
        BATCH.with_borrow_mut(|batch| {
            match socket.try_io(Interest::READABLE, || socket.as_fd().recv_into(batch)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                received => received?,
            };
            // A full socket loses replies, and then the run fails.
            let replies = batch.iter().filter_map(|d| Some(SendMsg::to(d.addr()?, d.data())));
            socket.as_fd().send_each(replies, |_, error| eprintln!("reply: {error}"))
        })?;
    }
}

/// `recv_from` and `send_to`, one after the other.
fn by_std(socket: UdpSocket) -> io::Result<Infallible> {
    let mut buffer = vec![0; SLOT_LEN];
    loop {
        let (len, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..len], from)?;
    }
}

/// The documentation's server: receives a batch and sends it back from the same memory.
fn by_thread(socket: &impl BatchSocket, mut batch: RecvBatch) -> io::Result<Infallible> {
    loop {
        socket.recv_into(&mut batch)?;
        let replies = batch.iter().filter_map(|d| Some(SendMsg::to(d.addr()?, d.data())));
        socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    }
}

fn blocking(way: &str, sockets: Vec<UdpSocket>) -> io::Result<Infallible> {
    let socket = sockets.into_iter().next().ok_or(io::ErrorKind::InvalidInput)?;
    match way {
        "std" => by_std(socket),
        "mmsg" => by_thread(&socket, RecvBatch::new(SLOTS, SLOT_LEN)),
        "mmsg Offload" => {
            by_thread(&Offload::new(socket)?, RecvBatch::new(COALESCED_SLOTS, COALESCED_LEN))
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

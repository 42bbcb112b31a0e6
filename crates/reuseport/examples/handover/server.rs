//! The server, and how it passes its sockets.

use mmsg_reuseport::{ReusePortGroup, Spread};
use rustix::net::*;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many sockets a group has: the kernel passes at most 253 at once.
const MEMBERS: usize = 4;

/// The sockets of the server that listens at `path`, in the order in which they joined.
fn take(path: &str) -> io::Result<Vec<UdpSocket>> {
    let from = UnixStream::connect(path)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MEMBERS))];
    let mut passed = RecvAncillaryBuffer::new(&mut space);
    recvmsg(from, &mut [IoSliceMut::new(&mut [0])], &mut passed, RecvFlags::CMSG_CLOEXEC)?;
    let sockets = passed.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    Ok(sockets.flatten().map(UdpSocket::from).collect())
}

/// Waits for the next server, and gives it the sockets.
fn give(path: &str, group: &ReusePortGroup) -> io::Result<()> {
    let _ = std::fs::remove_file(path);
    let (to, _) = UnixListener::bind(path)?.accept()?;
    let sockets: Vec<_> = group.members().iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MEMBERS))];
    let mut passed = SendAncillaryBuffer::new(&mut space);
    passed.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(to, &[IoSlice::new(&[0])], &mut passed, SendFlags::empty())?;
    Ok(())
}

pub fn run() -> io::Result<()> {
    let args: Vec<_> = std::env::args().collect();
    let [_, addr, path] = &args[..] else { panic!("usage: handover ADDRESS PATH") };
    let group = match take(path) {
        Ok(sockets) => ReusePortGroup::from_sockets(sockets, Spread::FLOW)?,
        // No server listens there: this is the first one.
        Err(_) => ReusePortGroup::builder(addr.parse().map_err(io::Error::other)?)
            .members(MEMBERS)
            .prepare(|socket| socket.set_read_timeout(Some(Duration::from_millis(50))))
            .bind()?,
    };
    // A closed output ends no server.
    let _ = writeln!(io::stdout(), "listening on {}", group.local_addr());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let giver = scope.spawn(|| {
            let given = give(path, &group);
            // What comes from now on waits in the sockets for the next server.
            stop.store(true, Ordering::Relaxed);
            given
        });
        group.run(|_, socket| {
            let mut buffer = [0; 1500];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..len], from);
                }
            }
        })?;
        giver.join().expect("no panic")
    })
}

//! Descriptors that a peer passes over a Unix socket are closed on arrival.

use std::io::{ErrorKind, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use mmsg::control::{ControlBuf, ControlMessages};
use mmsg::{BatchSocket, Message, Offload, RecvBatch};
use socket2::{Domain, Socket, Type};

use crate::common::choose_backend;
use crate::common::descriptors::{MAX_DESCRIPTORS, Watched, pass};
use crate::common::linux::set_option;
use crate::common::recv::{memory, recv_msgs};
use crate::common::sockets::unix_pair;

/// A way to receive.
type Way = (&'static str, fn(&OwnedFd));

/// All ways to receive. At least three messages wait.
const WAYS: [Way; 5] = [
    ("recv_batch of many", |socket| {
        let mut memory = memory(8, 16);
        socket.recv_batch(&mut recv_msgs(&mut memory)).expect("they are there");
    }),
    ("recv_batch that truncates", |socket| {
        let mut memory = memory(2, 1);
        socket.recv_batch(&mut recv_msgs(&mut memory)).expect("they are there");
    }),
    ("recv_into of many", |socket| {
        let mut batch = RecvBatch::new(8, 16);
        socket.recv_into(&mut batch).expect("they are there");
        batch.messages().for_each(|message| assert_no_numbers(message.control_messages()));
    }),
    ("recv_slices", |socket| {
        let mut memory = memory(3, 16);
        let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let mut each = |_, message: Message<'_>| assert_no_numbers(message.control_messages());
        socket.recv_slices(&mut buffers, &mut each).expect("they are there");
    }),
    ("an Offload", |socket| {
        let socket = Offload::new(socket.as_fd()).expect("a socket");
        let mut memory = memory(1, 16);
        socket.recv_batch(&mut recv_msgs(&mut memory)).expect("it is there");
        socket.recv_into(&mut RecvBatch::new(8, 65_535)).expect("they are there");
    }),
];

/// The numbers in control data must not name a descriptor of the process.
#[track_caller]
fn assert_no_numbers(mut messages: ControlMessages<'_>) {
    let rights = messages.find(|m| (m.level, m.ty) == (libc::SOL_SOCKET, libc::SCM_RIGHTS));
    let rights = rights.expect("each message came with descriptors");
    assert!(!rights.data.is_empty() && rights.data.iter().all(|byte| *byte == 0xff), "{rights:?}");
}

/// Connected Unix sockets of every type, and datagram sockets with source addresses as long as an Internet address.
fn pairs() -> [(OwnedFd, OwnedFd); 4] {
    choose_backend();
    let (a, b) = UnixDatagram::pair().expect("a pair");
    let (c, d) = UnixStream::pair().expect("a pair");
    let (e, f) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("a pair");
    let (g, h) = (named(), named());
    g.connect_addr(&h.local_addr().expect("it is bound")).expect("it is there");
    [(a.into(), b.into()), (c.into(), d.into()), (e.into(), f.into()), (g.into(), h.into())]
}

/// A socket with a unique name.
fn named() -> UnixDatagram {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let name = SocketAddr::from_abstract_name(format!("mmsg descriptors {process} {count}"));
    UnixDatagram::bind_addr(&name.expect("it is short")).expect("nobody else has it")
}

#[test]
fn descriptors_are_closed() {
    for (name, way) in WAYS {
        // The control data has space for 100 descriptors, but not for the maximum.
        for count in [1, 100, MAX_DESCRIPTORS] {
            for (a, b) in pairs() {
                let watched = Watched::new();
                (0..3).for_each(|_| pass(&a, b"data", &watched, count));
                way(&b);
                // Closing the socket discards the waiting messages.
                drop((a, b));
                assert!(watched.all_closed(), "{name}, {count} descriptors");
            }
        }
    }
}

#[test]
fn a_peers_pidfd_is_closed() {
    /// `SO_PASSPIDFD`, include/uapi/asm-generic/socket.h
    const SO_PASSPIDFD: i32 = 76;
    /// `SCM_PIDFD`, include/linux/socket.h
    const SCM_PIDFD: i32 = 4;
    let (a, b) = unix_pair();
    if let Err(error) = set_option(&b, libc::SOL_SOCKET, SO_PASSPIDFD, 1) {
        return crate::common::skip(error);
    }
    a.send(b"data").expect("there is space");
    let mut batch = RecvBatch::new(2, 16);
    assert_eq!(b.recv_into(&mut batch).expect("it is there"), 1);
    let message = batch.message(0).expect("one");
    let pidfd = message.control_messages().find(|m| m.ty == SCM_PIDFD).expect("it is received");
    assert_eq!(pidfd.data, [0xff; 4]);
}

#[test]
fn no_descriptors_are_sent() {
    let watched = Watched::new();
    let mut control = ControlBuf::new();
    let number = watched.as_fd().as_raw_fd().to_ne_bytes();
    let error = control.push(libc::SOL_SOCKET, libc::SCM_RIGHTS, &number).expect_err("a number");
    assert_eq!((error.kind(), control.as_bytes().len()), (ErrorKind::InvalidInput, 0));
}

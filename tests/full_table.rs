//! A process that cannot open another descriptor.
//!
//! The only test of its binary, because the limit applies to the process.
#![cfg(any(target_os = "linux", target_os = "freebsd"))]

mod common;

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use common::descriptors::{Watched, pass};
use common::sockets::udp4;
use common::{code, exchange};
use mmsg::{Ancillary, Backend, BatchSocket, Offload, RecvBatch};

/// The test selects each backend in turn.
const BACKEND: Option<Backend> = None;

/// Opens descriptors until the table is full.
fn fill(of: &UdpSocket) -> Vec<OwnedFd> {
    let limit = libc::rlimit { rlim_cur: 100, rlim_max: 100 };
    // SAFETY: the limit is a struct of two numbers, which the call reads.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let mut all = Vec::new();
    loop {
        match of.as_fd().try_clone_to_owned() {
            Ok(fd) => all.push(fd),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                return all;
            }
        }
    }
}

#[test]
fn a_full_descriptor_table_loses_nothing_but_descriptors() {
    let (near, far, wrapped) = (udp4(), udp4(), udp4());
    let (sender, receiver) = UnixDatagram::pair().expect("a pair");
    let watched = Watched::new();
    for _ in 0..4 {
        pass(&sender, b"data", &watched.as_fd(), 3);
    }
    let mut full = fill(&near);
    let wrapped = Offload::new(wrapped).expect("it takes no descriptor");
    for backend in [Backend::Mmsg, Backend::Msg] {
        backend.make_process_default().expect("the system has both");
        exchange(&near, &far, 40);
        exchange(&wrapped, &far, 40);
        // FreeBSD fails the whole receive (`unp_externalize`).
        if cfg!(not(target_os = "linux")) {
            continue;
        }
        Ancillary::ERRORS.require(&near).expect("it takes no descriptor");

        // The message reports the descriptors that did not fit the table, and loses nothing else.
        let mut batch = RecvBatch::new(1, 16);
        assert_eq!(receiver.recv_into(&mut batch).expect("a message is there"), 1);
        let message = batch.messages().next().expect("one was counted");
        assert_eq!((message.data(), message.control_truncated()), (&b"data"[..], true));

        // The descriptors that fit are closed.
        full.truncate(full.len() - 2);
        assert_eq!(receiver.recv_into(&mut batch).expect("a message is there"), 1);
        assert!(batch.messages().all(|message| message.control_truncated()));
        for _ in 0..2 {
            full.push(near.as_fd().try_clone_to_owned().expect("both are free again"));
        }
    }
    assert_eq!(code(near.try_clone()), libc::EMFILE, "the table was full all the time");
    drop(full);
    exchange(&near, &far, 40);
}

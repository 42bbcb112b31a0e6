//! Ten thousand messages of a hundred descriptors each leave the process's descriptors as they were.
//!
//! The only test of its binary, since it counts what the whole process has open.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use common::descriptors::{Watched, pass};
use common::recv::{memory, recv_msgs, recv_msgs_with};
use common::smaller;
use mmsg::control::ControlBuf;
use mmsg::{Backend, BatchSocket, MmsgBuf, Offload, RecvBatch, RecvFlags};

/// Chosen by the test.
const BACKEND: Option<Backend> = None;

const DESCRIPTORS: usize = 100;
/// Messages that wait at once: the kernel's bound for a Unix datagram socket is 10 at first, and
/// their descriptors are below the usual limit of a process.
const ROUND: usize = 8;

/// Descriptors that this process has open.
fn open() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count())
}

/// Memory that each round uses again.
struct Receiver {
    socket: UnixDatagram,
    offload: Offload<OwnedFd>,
    batch: RecvBatch,
    arena: MmsgBuf,
}

impl Receiver {
    /// Receives all of a round, in the way of this number.
    fn receive(&mut self, way: usize) {
        let Self { socket, offload, batch, arena } = self;
        let mut memory = memory(ROUND, 16);
        match way {
            0 => assert_eq!(socket.recv_batch(&mut recv_msgs(&mut memory)).expect("there"), ROUND),
            1 => assert_eq!(socket.recv_into(batch).expect("there"), ROUND),
            2 => assert_eq!(offload.recv_batch(&mut recv_msgs(&mut memory)).expect("there"), ROUND),
            3 => {
                let mut batch = RecvBatch::for_gro(ROUND);
                assert_eq!(offload.recv_into(&mut batch).expect("there"), ROUND);
            }
            4 => {
                for _ in 0..ROUND {
                    let mut msgs = recv_msgs(&mut memory);
                    let peeked = arena.recv_with(socket, &mut msgs, RecvFlags::PEEK);
                    assert_eq!(peeked.expect("there"), 1);
                    assert_eq!(socket.recv_into(&mut RecvBatch::new(1, 1)).expect("there"), 1);
                }
            }
            5 => {
                let mut controls: [ControlBuf; ROUND] = Default::default();
                let mut msgs = recv_msgs_with(&mut memory, &mut controls);
                assert_eq!(arena.recv(socket, &mut msgs).expect("there"), ROUND);
            }
            _ => {
                let mut buffers: Vec<_> =
                    memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
                assert_eq!(socket.recv_slices(&mut buffers, &mut |_, _| ()).expect("there"), ROUND);
            }
        }
        // A receive that fails leaves nothing open either.
        let nothing = arena.recv_with(socket, &mut recv_msgs(&mut memory), RecvFlags::DONT_WAIT);
        assert!(nothing.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn d10_ten_thousand_messages_leave_no_descriptor_open() {
    let (sender, socket) = UnixDatagram::pair().expect("a pair");
    let copy = OwnedFd::from(socket.try_clone().expect("a descriptor is left"));
    let mut receiver = Receiver {
        socket,
        offload: Offload::new(copy).expect("a socket"),
        batch: RecvBatch::new(ROUND + 3, 16),
        arena: MmsgBuf::with_backend(Backend::Mmsg),
    };
    let watched = Watched::new();
    let before = open();
    // Fewer in an emulated machine, where a million descriptors take many minutes.
    for i in 0..smaller(10_000, 1_000) / ROUND {
        let backend = [Backend::Mmsg, Backend::Msg][i % 2];
        backend.make_process_default().expect("Linux has both");
        for _ in 0..ROUND {
            pass(&sender, b"data", &watched.as_fd(), DESCRIPTORS);
        }
        // Each way with each backend: seven ways, two backends.
        receiver.receive(i % 7);
    }
    assert_eq!(open(), before);
    assert!(watched.all_closed());
}

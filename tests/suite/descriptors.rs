//! Descriptors received over Unix sockets: closed unless asked for.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use mmsg::control::{ControlBuf, ControlMessages};
use mmsg::{
    BatchSocket, MmsgBuf, Offload, RecvBatch, RecvFlags, RecvMeta, RecvMsg, SendMsg, SendQueue,
};
use socket2::{Domain, Socket, Type};

use crate::common::choose_backend;
use crate::common::descriptors::{MOST, Watched, is_cloexec, pass};
use crate::common::linux::set_option;
use crate::common::recv::{memory, recv_msgs, recv_msgs_with};
use crate::common::sockets::unix_pair;

/// A way to receive.
type Way = (&'static str, fn(&OwnedFd));

/// Every way to receive without asking for descriptors. At least three messages wait.
const WAYS: [Way; 11] = [
    ("recv_batch of many", |socket| {
        let mut memory = memory(8, 16);
        socket.recv_batch(&mut recv_msgs(&mut memory)).expect("they are there");
    }),
    ("recv_batch of one", |socket| {
        let mut byte = [0; 16];
        socket.recv_batch(&mut [RecvMsg::new(&mut byte)]).expect("it is there");
    }),
    ("recv_batch that truncates", |socket| {
        let mut memory = memory(2, 1);
        socket.recv_batch(&mut recv_msgs(&mut memory)).expect("they are there");
    }),
    ("recv_batch with control buffers", |socket| {
        let mut controls: [ControlBuf; 4] = Default::default();
        let mut memory = memory(4, 16);
        let mut msgs = recv_msgs_with(&mut memory, &mut controls);
        let n = socket.recv_batch(&mut msgs).expect("they are there");
        msgs[..n].iter().for_each(|msg| assert_no_numbers(msg.control_messages()));
    }),
    ("recv_into of many", |socket| {
        let mut batch = RecvBatch::new(8, 16);
        socket.recv_into(&mut batch).expect("they are there");
        batch.messages().for_each(|message| assert_no_numbers(message.control_messages()));
    }),
    ("recv_into of one", |socket| {
        socket.recv_into(&mut RecvBatch::new(1, 16)).expect("it is there");
    }),
    ("a batch used again", |socket| {
        let mut batch = RecvBatch::new(1, 16);
        for _ in 0..3 {
            socket.recv_into(&mut batch).expect("it is there");
        }
    }),
    ("a peek into messages", |socket| {
        let mut memory = memory(2, 16);
        socket.recv_batch_with(&mut recv_msgs(&mut memory), RecvFlags::PEEK).expect("it is there");
    }),
    ("a peek into a batch", |socket| {
        let mut batch = RecvBatch::new(4, 16);
        socket.recv_into_with(&mut batch, RecvFlags::PEEK).expect("it is there");
        batch.messages().for_each(|message| assert_no_numbers(message.control_messages()));
    }),
    ("an arena", |socket| {
        let mut memory = memory(3, 16);
        MmsgBuf::new().recv(socket, &mut recv_msgs(&mut memory)).expect("they are there");
    }),
    ("an Offload", |socket| {
        let socket = Offload::new(socket.as_fd()).expect("a socket");
        let mut memory = memory(1, 16);
        socket.recv_batch(&mut recv_msgs(&mut memory)).expect("it is there");
        socket.recv_into(&mut RecvBatch::new(8, 65_535)).expect("they are there");
    }),
];

/// The numbers in control data do not name a descriptor of the process.
#[track_caller]
fn assert_no_numbers(mut messages: ControlMessages<'_>) {
    let rights = messages.find(|m| (m.level, m.ty) == (libc::SOL_SOCKET, libc::SCM_RIGHTS));
    let rights = rights.expect("each message came with descriptors");
    assert!(!rights.data.is_empty() && rights.data.iter().all(|byte| *byte == 0xff), "{rights:?}");
}

/// Connected Unix sockets of every type, and datagram sockets whose messages have a source as long as an
/// Internet address.
fn pairs() -> [(OwnedFd, OwnedFd); 4] {
    choose_backend();
    let (a, b) = UnixDatagram::pair().expect("a pair");
    let (c, d) = UnixStream::pair().expect("a pair");
    let (e, f) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("a pair");
    let (g, h) = (named(), named());
    g.connect_addr(&h.local_addr().expect("it is bound")).expect("it is there");
    [(a.into(), b.into()), (c.into(), d.into()), (e.into(), f.into()), (g.into(), h.into())]
}

/// A socket with a name that no other has.
fn named() -> UnixDatagram {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let name = SocketAddr::from_abstract_name(format!("mmsg descriptors {process} {count}"));
    UnixDatagram::bind_addr(&name.expect("it is short")).expect("nobody else has it")
}

#[test]
fn d10_unrequested_descriptors_are_closed() {
    for (name, way) in WAYS {
        // 100 fit the control data, of the most some do not.
        for count in [1, 100, MOST] {
            for (a, b) in pairs() {
                let watched = Watched::new();
                (0..3).for_each(|_| pass(&a, b"data", &watched, count));
                way(&b);
                // Messages that still wait in the socket go with it.
                drop((a, b));
                assert!(watched.all_closed(), "{name}, {count} descriptors");
            }
        }
    }
}

#[test]
fn d10_messages_with_and_without_descriptors_mix() {
    let (a, b) = unix_pair();
    let watched = Watched::new();
    let mut batch = RecvBatch::new(8, 16);
    for round in 0..20 {
        let counts = [0, 2, 0, 0, 1, 3].map(|count| count * (round % 3));
        counts.iter().for_each(|count| pass(&a, b"data", &watched, *count));
        assert_eq!(b.recv_into(&mut batch).expect("they are there"), 6);
        for (message, count) in batch.messages().zip(counts) {
            assert_eq!(message.data(), b"data");
            assert_eq!(message.control_messages().count(), usize::from(count > 0));
        }
    }
    assert!(watched.all_closed());
}

#[test]
fn d10_a_peers_pidfd_is_closed() {
    /// `SO_PASSPIDFD`, include/uapi/asm-generic/socket.h
    const SO_PASSPIDFD: i32 = 76;
    /// `SCM_PIDFD`, include/linux/socket.h
    const SCM_PIDFD: i32 = 4;
    let (a, b) = unix_pair();
    if let Err(error) = set_option(&b, libc::SOL_SOCKET, SO_PASSPIDFD, 1) {
        return crate::common::skip("d10_a_peers_pidfd_is_closed", error);
    }
    // Also where descriptors are asked for: those are other ones.
    for accepts in [false, true] {
        a.send(b"data").expect("there is space");
        let mut batch = RecvBatch::new(2, 16);
        batch.accept_fds(accepts);
        assert_eq!(b.recv_into(&mut batch).expect("it is there"), 1);
        let message = batch.messages().next().expect("one");
        let pidfd = message.control_messages().find(|m| m.ty == SCM_PIDFD).expect("it is received");
        assert_eq!(pidfd.data, [0xff; 4]);
        assert_eq!(batch.take_fds(0).count(), 0);
    }
    a.send(b"data").expect("there is space");
    let (mut buffer, mut fds) = ([0; 16], Vec::new());
    b.recv_batch(&mut [RecvMsg::new(&mut buffer).with_fds(&mut fds)]).expect("it is there");
    assert!(fds.is_empty());
}

/// Whether these are `count` copies of the watched descriptor, with close-on-exec.
#[track_caller]
fn assert_copies(fds: &[OwnedFd], watched: &Watched, count: usize) {
    assert_eq!(fds.len(), count);
    for fd in fds {
        assert!(watched.is_copy(fd.as_fd()) && is_cloexec(fd.as_fd()));
    }
}

#[test]
fn d10_a_message_owns_the_descriptors_it_asked_for() {
    for (a, b) in pairs() {
        let watched = Watched::new();
        // At least one each: of a stream, what came without any goes together with what follows.
        let counts = [2, 1, 3, 100];
        let mut memory = memory(4, 16);
        let mut fds: [Vec<OwnedFd>; 4] = Default::default();
        for _ in 0..3 {
            counts.iter().for_each(|count| pass(&a, b"data", &watched, *count));
            let (mut got, mut left) = (Vec::new(), 4);
            while left > 0 {
                let msgs = recv_msgs(&mut memory).into_iter().zip(&mut fds);
                let mut msgs: Vec<_> = msgs.map(|(msg, fds)| msg.with_fds(fds)).collect();
                let n = b.recv_batch(&mut msgs[..left]).expect("they are there");
                assert!(msgs[..n].iter().all(|msg| !msg.control_truncated()));
                drop(msgs);
                got.extend(fds[..n].iter_mut().map(std::mem::take));
                left -= n;
            }
            for (got, count) in got.iter().zip(counts) {
                assert_copies(got, &watched, count);
            }
        }
        drop((a, b));
        assert!(watched.all_closed());
    }
}

#[test]
fn d10_messages_that_ask_for_no_descriptors_have_them_closed() {
    let (a, b) = unix_pair();
    let watched = Watched::new();
    let mut memory = memory(3, 16);
    let mut fds = Vec::new();
    for _ in 0..3 {
        (1..=3).for_each(|count| pass(&a, b"data", &watched, count));
        let mut msgs = recv_msgs(&mut memory);
        let middle = msgs.remove(1).with_fds(&mut fds);
        msgs.insert(1, middle);
        assert_eq!(b.recv_batch(&mut msgs).expect("they are there"), 3);
        drop(msgs);
        assert_copies(&fds, &watched, 2);
    }
    // The next message into the same space closes the descriptors of the one before.
    let mut byte = [0; 16];
    let mut msgs = [RecvMsg::new(&mut byte).with_fds(&mut fds)];
    for count in [1, 0, 2] {
        pass(&a, b"data", &watched, count);
        assert_eq!(b.recv_batch(&mut msgs).expect("it is there"), 1);
    }
    pass(&a, b"data", &watched, 0);
    assert_eq!(b.recv_batch(&mut msgs).expect("it is there"), 1);
    assert_copies(&fds, &watched, 0);
    assert!(watched.all_closed());
}

#[test]
fn d10_a_batch_owns_the_descriptors_it_asked_for() {
    for slots in [1, 4, 40] {
        let (a, b) = unix_pair();
        let watched = Watched::new();
        let mut batch = RecvBatch::new(slots, 16);
        batch.accept_fds(true);
        for round in 0..4 {
            let counts = [3, 0, 1].map(|count| count + round % 2);
            counts.iter().for_each(|count| pass(&a, b"data", &watched, *count));
            let mut got = Vec::new();
            while got.len() < 3 {
                let n = b.recv_into(&mut batch).expect("they are there");
                batch.messages().for_each(|message| {
                    if message.control_messages().count() > 0 {
                        assert_no_numbers(message.control_messages());
                    }
                });
                // In any order, and each once; the last message's are left to the next receive.
                for i in (0..n).rev() {
                    got.push(batch.take_fds(i).collect::<Vec<_>>());
                    assert_eq!(batch.take_fds(i).count(), 0);
                }
                assert_eq!(batch.take_fds(n).count() + batch.take_fds(usize::MAX).count(), 0);
                let start = got.len() - n;
                got[start..].reverse();
            }
            for (got, count) in got.iter().zip(counts) {
                assert_copies(got, &watched, count);
            }
        }
        assert!(watched.all_closed());
    }
}

/// A receive of more messages than one system call carries numbers them on.
#[test]
fn d10_descriptors_beyond_the_first_thousand_messages_are_those_of_their_message() {
    const AT: usize = 1_500;
    let (mut a, b) = UnixStream::pair().expect("a pair");
    let watched = Watched::new();
    let mut batch = RecvBatch::new(AT + 100, 1);
    batch.accept_fds(true);
    // Of a stream: one byte is one message.
    a.write_all(&[1; AT]).expect("there is space for all");
    pass(&a, b"2", &watched, 2);
    assert_eq!(b.as_fd().recv_into(&mut batch).expect("they are there"), AT + 1);
    assert_eq!((0..AT).map(|i| batch.take_fds(i).count()).sum::<usize>(), 0);
    assert_copies(&batch.take_fds(AT).collect::<Vec<_>>(), &watched, 2);
    assert!(watched.all_closed());
}

#[test]
fn d10_the_next_receive_closes_descriptors_not_taken() {
    // Descriptors that were handed out stay open after the drop.
    let ends: [fn(RecvBatch, &OwnedFd) -> Option<RecvBatch>; 5] = [
        |batch, _| {
            drop(batch);
            None
        },
        |mut batch, _| {
            batch.clear();
            Some(batch)
        },
        |mut batch, _| {
            batch.accept_fds(false);
            Some(batch)
        },
        |mut batch, _| {
            batch.accept_fds(true);
            Some(batch)
        },
        |mut batch, socket| {
            let result = socket.recv_into_with(&mut batch, RecvFlags::DONT_WAIT);
            assert!(result.is_err() && batch.is_empty());
            Some(batch)
        },
    ];
    for end in ends {
        let (a, b) = unix_pair();
        let (watched, b) = (Watched::new(), OwnedFd::from(b));
        let mut batch = RecvBatch::new(4, 16);
        batch.accept_fds(true);
        (1..=3).for_each(|count| pass(&a, b"data", &watched, count));
        assert_eq!(b.recv_into(&mut batch).expect("they are there"), 3);
        drop(batch.take_fds(1).next());
        let _alive = end(batch, &b);
        assert!(watched.all_closed());
    }
}

#[test]
fn d10_a_peek_gives_copies_and_leaves_the_others() {
    let (a, b) = unix_pair();
    let watched = Watched::new();
    let mut batch = RecvBatch::new(4, 16);
    batch.accept_fds(true);
    pass(&a, b"data", &watched, 2);
    for flags in [RecvFlags::PEEK, RecvFlags::PEEK, RecvFlags::NONE] {
        assert_eq!(b.recv_into_with(&mut batch, flags).expect("it is there"), 1);
        assert_copies(&batch.take_fds(0).collect::<Vec<_>>(), &watched, 2);
        let (mut byte, mut fds) = ([0; 8], Vec::new());
        if flags == RecvFlags::PEEK {
            let mut msgs = [RecvMsg::new(&mut byte).with_fds(&mut fds)];
            assert_eq!(b.recv_batch_with(&mut msgs, flags).expect("it is there"), 1);
            assert_copies(&fds, &watched, 2);
        }
    }
    assert!(watched.all_closed());
}

#[test]
fn d10_when_not_all_descriptors_fit_those_received_are_owned() {
    let (a, b) = unix_pair();
    let watched = Watched::new();
    let mut batch = RecvBatch::new(2, 16);
    batch.accept_fds(true);
    pass(&a, b"data", &watched, MOST);
    assert_eq!(b.recv_into(&mut batch).expect("it is there"), 1);
    assert!(batch.messages().all(|message| message.control_truncated()));
    let fds: Vec<_> = batch.take_fds(0).collect();
    assert!((100..MOST).contains(&fds.len()), "{}", fds.len());
    assert_copies(&fds, &watched, fds.len());
    drop((fds, batch));
    assert!(watched.all_closed());
}

#[test]
fn d10_a_wrapper_socket_passes_descriptors_on() {
    /// Receives by the socket in it, as a wrapper of another crate may.
    struct Wrapper(UnixDatagram);
    impl BatchSocket for Wrapper {
        fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> std::io::Result<usize> {
            self.0.recv_batch(msgs)
        }
        fn send_batch(&self, msgs: &[SendMsg<'_>]) -> std::io::Result<usize> {
            self.0.send_batch(msgs)
        }
    }
    let (a, b) = unix_pair();
    let (watched, b) = (Watched::new(), Wrapper(b));
    for accepts in [true, false, true] {
        let mut batch = RecvBatch::new(4, 16);
        batch.accept_fds(accepts);
        let counts = [1, 0, 2];
        counts.iter().for_each(|count| pass(&a, b"data", &watched, *count));
        assert_eq!(b.recv_into(&mut batch).expect("they are there"), 3);
        for (i, count) in counts.into_iter().enumerate() {
            let fds: Vec<_> = batch.take_fds(i).collect();
            assert_copies(&fds, &watched, if accepts { count } else { 0 });
        }
    }
    // The messages of a stand-in come without any.
    let (mut byte, mut fds) = ([0; 8], vec![watched.as_fd().try_clone_to_owned().expect("a copy")]);
    let mut msg = RecvMsg::new(&mut byte).with_fds(&mut fds);
    msg.fill(b"data", None, RecvMeta::default());
    assert!(fds.is_empty() && watched.all_closed());
}

#[test]
fn d10_descriptors_are_sent_from_borrowed_ones_alone() {
    let (a, b) = unix_pair();
    let watched = Watched::new();
    let mut control = ControlBuf::new();
    let number = std::os::fd::AsRawFd::as_raw_fd(&watched.as_fd()).to_ne_bytes();
    let error = control.push(libc::SOL_SOCKET, libc::SCM_RIGHTS, &number).expect_err("a number");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(control.as_bytes().is_empty());
    let error = control.push_fds(&vec![watched.as_fd(); 1000]).expect_err("too many");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(control.as_bytes().is_empty());

    control.push_fds(&[watched.as_fd(), watched.as_fd()]).expect("there is space");
    let msg = SendMsg::new(b"data").with_control(&control);
    assert_eq!(a.send_batch(&[msg; 3]).expect("there is space"), 3);
    let mut batch = RecvBatch::new(4, 16);
    batch.accept_fds(true);
    assert_eq!(b.recv_into(&mut batch).expect("they are there"), 3);
    (0..3).for_each(|i| assert_copies(&batch.take_fds(i).collect::<Vec<_>>(), &watched, 2));

    // A queue outlives the borrow.
    let mut queue = SendQueue::new(1 << 16);
    assert!(queue.push(&msg).is_err() && queue.is_empty());
    assert!(watched.all_closed());
}

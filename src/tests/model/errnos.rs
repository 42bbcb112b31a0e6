//! Every error number that the man pages name, at the first, a middle and the last message.

use super::exhaustive::{run, skips};
use super::kernel::{Direction, Event};
use super::ops::{Batch, Config, Kind, Op, Receiving, RecvSpace, Sending, Shape};
use super::world::World;
use crate::tests::BACKENDS;

/// The numbers of sendmsg(2), sendmmsg(2), udp(7), ip(7) and unix(7), and those of routes, devices, firewalls
/// and tunnels that a send meets. `docs/faults.md` has a row for each.
pub(super) const SEND: [i32; 44] = [
    libc::EACCES,
    libc::EADDRINUSE,
    libc::EADDRNOTAVAIL,
    libc::EAFNOSUPPORT,
    libc::EAGAIN,
    libc::EALREADY,
    libc::EBADF,
    libc::ECONNABORTED,
    libc::ECONNREFUSED,
    libc::ECONNRESET,
    libc::EDESTADDRREQ,
    libc::EFAULT,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
    libc::EINTR,
    libc::EINVAL,
    libc::EIO,
    libc::EISCONN,
    libc::EMSGSIZE,
    libc::ENETDOWN,
    libc::ENETUNREACH,
    libc::ENFILE,
    libc::ENOBUFS,
    libc::ENODEV,
    libc::ENOENT,
    libc::ENOMEM,
    libc::ENONET,
    libc::ENOPKG,
    libc::ENOPROTOOPT,
    libc::ENOTCONN,
    libc::ENOTSOCK,
    libc::ENXIO,
    libc::EOPNOTSUPP,
    libc::EPERM,
    libc::EPIPE,
    libc::EPROTO,
    libc::EPROTONOSUPPORT,
    libc::EPROTOTYPE,
    libc::ESOCKTNOSUPPORT,
    libc::ESRCH,
    libc::ETIMEDOUT,
    libc::ETOOMANYREFS,
    libc::EUSERS,
    libc::EXFULL,
];

/// The numbers of recvmsg(2), recvmmsg(2), udp(7) and ip(7), and the ICMP errors. Those that the page names for
/// other calls are here as well: a system may give any.
pub(super) const RECEIVE: [i32; 31] = [
    libc::EACCES,
    libc::EADDRINUSE,
    libc::EADDRNOTAVAIL,
    libc::EAGAIN,
    libc::EALREADY,
    libc::EBADF,
    libc::ECONNABORTED,
    libc::ECONNREFUSED,
    libc::ECONNRESET,
    libc::EFAULT,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
    libc::EINTR,
    libc::EINVAL,
    libc::EISCONN,
    libc::EMSGSIZE,
    libc::ENETDOWN,
    libc::ENETUNREACH,
    libc::ENOBUFS,
    libc::ENOENT,
    libc::ENOMEM,
    libc::ENONET,
    libc::ENOPKG,
    libc::ENOPROTOOPT,
    libc::ENOTCONN,
    libc::ENOTSOCK,
    libc::EOPNOTSUPP,
    libc::EPERM,
    libc::EPIPE,
    libc::EPROTO,
    libc::ESOCKTNOSUPPORT,
];

const COUNT: usize = 5;
const POSITIONS: [usize; 3] = [0, COUNT / 2, COUNT - 1];

/// These are about the socket, and do not stay with a message.
const OF_THE_SOCKET: [i32; 3] = [libc::EINTR, libc::EAGAIN, libc::ECONNREFUSED];

/// Runs the program with each errno at each position, once and staying. Returns how many runs.
fn at_each_position(kind: Kind, ops: &[Op], direction: Direction, errnos: &[i32]) -> usize {
    let mut runs = 0;
    for backend in BACKENDS {
        for errors in [false, true] {
            let config = Config { backend, sockets: [kind, Kind::Plain], errors };
            let mut world = World::new(config);
            for (errno, position) in errnos.iter().flat_map(|e| POSITIONS.map(|p| (*e, p))) {
                for stays in [false, true] {
                    if stays && (direction == Direction::Receive || OF_THE_SOCKET.contains(&errno))
                    {
                        continue;
                    }
                    let mut events = vec![Event::Pass; position];
                    events.push(Event::Fail { errno, stays });
                    let used;
                    (world, used) = run(world.renew(config), ops, direction, &events);
                    // With fewer headers than messages, some meet no header.
                    assert!(used > 0);
                    runs += 1;
                }
            }
        }
    }
    runs
}

#[test]
fn every_error_of_a_send_at_first_middle_and_last_message() {
    if skips() {
        return;
    }
    let mut runs = 0;
    let kinds = [
        (Kind::Plain, Shape::Alike),
        (Kind::Offload { gso: true, gro: false }, Shape::Alike),
        (Kind::Offload { gso: true, gro: false }, Shape::Mixed),
        (Kind::Offload { gso: false, gro: false }, Shape::OwnSegments),
    ];
    for (kind, shape) in kinds {
        for way in [Sending::Batch, Sending::Iter, Sending::Each, Sending::Flush] {
            let batch = Batch { count: COUNT, shape, seed: 0 };
            let op = Op::Send { socket: 0, clone: 0, way, batch, again: true, thread: false };
            runs += at_each_position(kind, &[op], Direction::Send, &SEND);
        }
    }
    // 16 kinds and ways, four configurations, three positions, once and, but for three, staying.
    assert_eq!(runs, 16 * 4 * 3 * (2 * SEND.len() - OF_THE_SOCKET.len()));
}

#[test]
fn every_error_of_a_receive_at_first_middle_and_last_message() {
    if skips() {
        return;
    }
    let mut runs = 0;
    for kind in [Kind::Plain, Kind::Offload { gso: false, gro: true }] {
        for way in [Receiving::Batch, Receiving::Into] {
            let batch = Batch { count: COUNT, shape: Shape::Alike, seed: 0 };
            let space = RecvSpace { messages: COUNT, bytes: 2_000, scattered: false };
            let receive = Op::Receive { socket: 0, clone: 0, way, space, thread: false };
            let ops = [Op::Fill { socket: 0, batch }, receive.clone(), receive];
            runs += at_each_position(kind, &ops, Direction::Receive, &RECEIVE);
        }
    }
    assert_eq!(runs, 4 * 4 * 3 * RECEIVE.len());
}

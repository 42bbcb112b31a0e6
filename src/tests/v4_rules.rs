//! Systems that treat IPv4's sources, interfaces and options in another way than Linux: Apple's, FreeBSD, NetBSD.
//!
//! Their rules are switched on in the scripted kernel, and a double of their `udp_output` sees every message.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use proptest::prelude::*;
use socket2::{Domain, Protocol, Socket, Type};

use super::*;
use crate::sys::numbers::{self as own, SourceRule, V4Rules};
use crate::sys::{AsSocket, ControlMessages};
use crate::{Ancillary, Ecn, Offload, SendMeta};

const APPLE: V4Rules = V4Rules {
    source: SourceRule::Unbinds,
    reported_by_v6: Some(&[own::RECV_PKTINFO_V6, own::RECV_TCLASS]),
};
const FREEBSD: V4Rules = V4Rules {
    source: SourceRule::Rejected,
    reported_by_v6: Some(&[own::RECV_PKTINFO_V6, own::RECV_TCLASS, own::RECV_HOP_LIMIT]),
};
const NETBSD: V4Rules = V4Rules { source: SourceRule::IgnoredByV6, reported_by_v6: Some(&[]) };

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Loopback.
const INTERFACE: u32 = 1;

/// A socket's addresses, as the kernel of the other system keeps them (`struct inpcb`). The IPv4 ones of an IPv6 socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pcb {
    local: Ipv4Addr,
    peer: Option<SocketAddr>,
}

impl Pcb {
    fn of(socket: &UdpSocket) -> Self {
        let IpAddr::V4(local) = addr(socket).ip().to_canonical() else {
            return Self { local: Ipv4Addr::UNSPECIFIED, peer: None };
        };
        Self { local, peer: socket.peer_addr().ok() }
    }

    /// Sends a message to `dest`: the error number, if it fails. IPv6 destinations change nothing.
    ///
    /// `udp_output` and `udp_check_pktinfo` in XNU's bsd/netinet/udp_usrreq.c; `udp_send` in FreeBSD's
    /// sys/netinet/udp_usrreq.c and `in_pcbbind_setup` in sys/netinet/in_pcb.c, whose `IP_SENDSRCADDR` is Linux' source here.
    fn output(
        &mut self,
        rule: SourceRule,
        dest: Option<SocketAddr>,
        control: &[u8],
    ) -> Option<i32> {
        if dest.is_some_and(|dest| dest.ip().to_canonical().is_ipv6()) {
            return None;
        }
        let info = ControlMessages::new(control)
            .find(|message| Some((message.level, message.ty)) == own::PKTINFO_V4)
            .map(|message| <[u8; 12]>::try_from(message.data).expect("a struct in_pktinfo"));
        if let Some([i0, i1, i2, i3, s0, s1, s2, s3, ..]) = info {
            let index = u32::from_ne_bytes([i0, i1, i2, i3]);
            let source = Ipv4Addr::new(s0, s1, s2, s3);
            match rule {
                SourceRule::Rejected if !self.local.is_unspecified() => return Some(errno::EINVAL),
                SourceRule::Unbinds => {
                    assert!(index == 0 || source.is_unspecified(), "the index overrides {source}");
                    if index > 0 || !source.is_unspecified() {
                        *self = Self { local: Ipv4Addr::UNSPECIFIED, peer: None };
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// A socket and its double.
struct Node {
    socket: UdpSocket,
    pcb: Rc<RefCell<Pcb>>,
    before: Pcb,
}

impl Node {
    /// Follows the rules from now on. One node at a time: its double judges every send of the thread.
    fn new(socket: UdpSocket, rules: V4Rules) -> Self {
        let before = Pcb::of(&socket);
        let pcb = Rc::new(RefCell::new(before));
        let double = pcb.clone();
        fault::set_v4_rules(Some(rules));
        fault::judge_sends(Some(Box::new(move |dest, control| {
            double.borrow_mut().output(rules.source, dest, control)
        })));
        Self { socket, pcb, before }
    }

    #[track_caller]
    fn is_as_before(&self) {
        assert_eq!((*self.pcb.borrow(), Pcb::of(&self.socket)), (self.before, self.before));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        fault::judge_sends(None);
        fault::set_v4_rules(None);
    }
}

/// What a socket is bound or connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    One,
    All,
    Connected,
    V6All,
    V6Connected,
}

const KINDS: [Kind; 5] = [Kind::One, Kind::All, Kind::Connected, Kind::V6All, Kind::V6Connected];

impl Kind {
    fn has_address(self) -> bool {
        !matches!(self, Self::All | Self::V6All)
    }

    fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::V6Connected)
    }

    /// `None` where the machine has no IPv6.
    fn socket(self, peer: SocketAddr) -> Option<UdpSocket> {
        let socket = match self {
            Self::One | Self::Connected => socket(),
            Self::All => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a UDP socket"),
            Self::V6All | Self::V6Connected => dual_stack()?,
        };
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mapped = SocketAddr::from((HOME.to_ipv6_mapped(), peer.port()));
        match self {
            Self::Connected => socket.connect(peer).expect("loopback"),
            Self::V6Connected => socket.connect(mapped).expect("loopback"),
            _ => {}
        }
        Some(socket)
    }
}

/// An IPv6 socket that carries IPv4, bound to all addresses.
fn dual_stack() -> Option<UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).ok()?;
    socket.set_only_v6(false).ok()?;
    socket.bind(&SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0)).into()).ok()?;
    Some(socket.into())
}

/// Runs `test` on a socket of each kind, under the rules of Apple and of FreeBSD, with both backends. `far` asks and gets the
/// answers.
fn on_each(test: impl Fn(Kind, V4Rules, &Node, &UdpSocket)) {
    for (rules, backend) in
        [APPLE, FREEBSD].into_iter().flat_map(|rules| BACKENDS.map(|backend| (rules, backend)))
    {
        for kind in KINDS {
            choose(backend);
            let far = socket();
            let Some(socket) = kind.socket(addr(&far)) else { continue };
            let node = Node::new(socket, rules);
            test(kind, rules, &node, &far);
            node.is_as_before();
        }
    }
}

/// Three questions from `far`, received by `node`.
fn asked(node: &Node, far: &UdpSocket) -> RecvBatch {
    let to = (HOME, addr(&node.socket).port());
    for _ in 0..3 {
        far.send_to(b"asked", to).expect("loopback");
    }
    let mut batch = RecvBatch::new(3, 64);
    while batch.message_count() < 3 {
        node.socket.recv_more(&mut batch).expect("they were sent");
    }
    batch
}

#[test]
fn another_source_or_an_interface_of_a_socket_with_an_address_is_an_error_that_names_it() {
    on_each(|kind, rules, node, far| {
        let to = if kind.is_connected() { None } else { Some(addr(far)) };
        let send = |meta: SendMeta| {
            let msg = to.map_or(SendMsg::new(b"x"), |to| SendMsg::to(to, b"x"));
            let sent = node.socket.send_batch(&[msg.with_meta(&meta), msg]);
            sent.map_err(|error| (error.kind(), error.to_string()))
        };
        let other = send(SendMeta::new().with_source(ELSEWHERE.into()));
        let interface = send(SendMeta::new().with_interface(INTERFACE));
        let refused = |result: Result<usize, (io::ErrorKind, String)>, field: &str| {
            let (kind, reason) = result.expect_err("it cannot be sent so");
            assert_eq!(kind, io::ErrorKind::InvalidInput);
            assert!(reason.contains(&format!("SendMeta::{field} ")), "{reason}");
            assert!(reason.contains("127.0.0.1"), "{reason}");
        };
        if kind.has_address() {
            refused(other, "source");
            if rules.source == SourceRule::Unbinds {
                refused(interface, "interface");
            }
        } else {
            assert_eq!((other, interface), (Ok(2), Ok(2)), "{kind:?}");
        }
        // Beside a source, Apple's systems would heed the interface alone.
        let link_local = SendMeta::new().with_source(HOME.into()).with_interface(INTERFACE);
        if rules.source == SourceRule::Unbinds {
            assert_eq!(send(link_local), Ok(2), "{kind:?}");
        }
    });
}

/// NetBSD sends such a message from any address, by any interface, and no error says so.
#[test]
fn a_source_or_interface_that_an_ipv6_socket_would_ignore_is_unsupported() {
    let far = socket();
    let metas =
        [SendMeta::new().with_source(HOME.into()), SendMeta::new().with_interface(INTERFACE)];
    for (kind, meta) in KINDS.into_iter().flat_map(|kind| metas.map(|meta| (kind, meta))) {
        let Some(socket) = kind.socket(addr(&far)) else { continue };
        let node = Node::new(socket, NETBSD);
        let plain =
            if kind.is_connected() { SendMsg::new(b"x") } else { SendMsg::to(addr(&far), b"x") };
        let sent = node.socket.send_batch(&[plain, plain.with_meta(&meta), plain]);
        let is_v6 = matches!(kind, Kind::V6All | Kind::V6Connected);
        assert_eq!(sent.expect("the first has no setting"), if is_v6 { 1 } else { 3 }, "{kind:?}");
        if is_v6 {
            let error =
                node.socket.send_batch(&[plain.with_meta(&meta)]).expect_err("it is ignored");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            // An answer names neither.
            let batch = asked(&node, &far);
            assert_eq!(
                node.socket
                    .send_each(
                        batch.iter().filter_map(|d| if kind.is_connected() {
                            Some(plain)
                        } else {
                            d.reply(b"x")
                        }),
                        |_, error| panic!("{error}")
                    )
                    .expect("all are sent"),
                3
            );
        }
    }
}

#[test]
fn a_batch_asks_for_the_address_once_and_only_for_sources_and_interfaces() {
    let far = socket();
    let node = Node::new(socket(), APPLE);
    let metas = [SendMeta::new().with_source(HOME.into()), SendMeta::new().with_tos(Ecn::Ce as u8)];
    let source = metas[0].with_tos(4);
    let plain = SendMsg::to(addr(&far), b"x");
    let msgs =
        [plain, plain.with_meta(&metas[0]), plain.with_meta(&metas[1]), plain.with_meta(&source)];
    for (msgs, questions) in [(&msgs[..], 1), (&msgs[..1], 0), (&msgs[2..3], 0)] {
        fault::questions();
        assert_eq!(node.socket.send_batch(msgs).expect("all are sent"), msgs.len());
        assert_eq!(fault::questions(), questions);
    }
}

fn metas() -> impl Strategy<Value = SendMeta> {
    let mapped = |ip: Ipv4Addr| IpAddr::V6(ip.to_ipv6_mapped());
    let sources = prop::sample::select(vec![
        None,
        Some(HOME.into()),
        Some(ELSEWHERE.into()),
        Some(Ipv4Addr::UNSPECIFIED.into()),
        Some(mapped(HOME)),
        Some(mapped(ELSEWHERE)),
        Some(std::net::Ipv6Addr::LOCALHOST.into()),
    ]);
    let interfaces = prop::sample::select(vec![None, Some(0), Some(INTERFACE)]);
    (sources, interfaces, any::<bool>()).prop_map(|(source, interface, ecn)| SendMeta {
        source,
        interface,
        tos: ecn.then_some(2),
        ..SendMeta::new()
    })
}

proptest! {
    #[test]
    fn no_sequence_of_sends_changes_what_a_socket_is_bound_or_connected_to(
        kind in prop::sample::select(KINDS.to_vec()),
        apple in any::<bool>(),
        batches in prop::collection::vec((prop::collection::vec(metas(), 1..4), 0..3u8, any::<bool>(), 0..3u16), 1..6),
    ) {
        let far = socket();
        if let Some(socket) = kind.socket(addr(&far)) {
            let offload = Offload::builder().gro(false).build(socket.try_clone().expect("a descriptor")).expect("UDP");
            let node = Node::new(socket, if apple { APPLE } else { FREEBSD });
            for (metas, way, with_dest, size) in &batches {
                choose(BACKENDS[usize::from(*way) % BACKENDS.len()]);
                // Linux sends to a destination on a connected socket, too.
                let dest = *with_dest || !kind.is_connected();
                let msg = if dest { SendMsg::to(addr(&far), b"xx") } else { SendMsg::new(b"xx") };
                // As the crates for quinn and noq send.
                let msg = if *way == 1 { msg.with_segment_size(*size) } else { msg };
                // FreeBSD has no interface of an IPv4 send.
                let interface = |meta: &SendMeta| meta.interface.filter(|_| apple);
                let metas = metas.iter().map(|meta| SendMeta { interface: interface(meta), ..*meta });
                let metas: Vec<_> = metas.collect();
                let msgs = metas.iter().map(|meta| msg.with_meta(meta));
                match way {
                    0 => drop(node.socket.send_batch(&msgs.collect::<Vec<_>>())),
                    1 => drop(offload.send_batch(&msgs.collect::<Vec<_>>())),
                    _ => drop(node.socket.send_each(msgs, |_, error| {
                        // The kernel would reject nothing that goes down to it.
                        assert!(error.kind() != io::ErrorKind::InvalidInput || error.raw_os_error().is_none(), "{error}");
                    })),
                }
                node.is_as_before();
            }
        }
    }
}

/// The members of these three that are on.
fn enabled(socket: &(impl AsSocket + ?Sized), rules: V4Rules) -> Vec<Ancillary> {
    fault::set_v4_rules(Some(rules));
    let members = [Ancillary::DEST, Ancillary::TOS, Ancillary::HOP_LIMIT];
    let on = members.into_iter().fold(Ancillary::NONE, |all, member| all | member).enable(socket);
    for member in members {
        let required = member.require(socket).is_ok();
        assert_eq!(required, on.as_ref().is_ok_and(|on| on.contains(member)), "{member:?}");
    }
    fault::set_v4_rules(None);
    let on = on.expect("a socket");
    members.into_iter().filter(|member| on.contains(*member)).collect()
}

/// An IPv6 socket that refuses IPv4's options has what IPv6's report for both families, and an IPv4 socket has all.
#[test]
fn metadata_of_a_dual_stack_socket_is_on_if_both_families_have_it() {
    let all = vec![Ancillary::DEST, Ancillary::TOS, Ancillary::HOP_LIMIT];
    for rules in [APPLE, FREEBSD, NETBSD] {
        assert_eq!(enabled(&socket(), rules), all);
    }
    let Some(dual) = dual_stack() else { return };
    assert_eq!(enabled(&dual, FREEBSD), all);
    assert_eq!(enabled(&dual, APPLE), all[..2]);
    // Answers to IPv4 would leave from any address.
    assert_eq!(enabled(&dual, NETBSD), []);
    // A member that is not on leaves each option as it was.
    let new = dual_stack().expect("the first could be made");
    assert_eq!(enabled(&new, NETBSD), []);
    for name in [own::RECV_PKTINFO_V6, own::RECV_PKTINFO_V4, own::RECV_HOP_LIMIT] {
        assert_eq!(crate::sys::option(crate::sys::borrow(&new), name).ok(), Some(0));
    }
    let only_v6 = dual_stack().expect("the first could be made");
    let only_v6 = Socket::from(only_v6);
    if only_v6.set_only_v6(true).is_ok() {
        assert_eq!(enabled(&only_v6, NETBSD), all);
    }
}

/// NetBSD's `sys_sendmmsg` (sys/kern/uipc_syscalls.c) stores each error in the socket, also the one that it took from there:
/// the next call returns it again, for an innocent message. Single sends take it once.
#[test]
fn one_unreachable_destination_fails_alone_where_errors_are_stored_again() {
    for (backend, expected) in [(Backend::Msg, vec![3]), (Backend::Mmsg, vec![3, 4])] {
        choose(backend);
        let loopback = Loopback::new();
        let data = numbers(0..64);
        let mut msgs = loopback.msgs(&data);
        let unreachable = SocketAddr::from((ELSEWHERE, 9));
        msgs[3] = msgs[3].with_dest(unreachable);
        // Whether the call is of many messages; the socket's error.
        let many = Rc::new(Cell::new(false));
        let stored = Rc::new(Cell::new(false));
        let (is_many, error) = (many.clone(), stored.clone());
        fault::decide_by(move |call, _| {
            is_many.set(call == Call::SendMmsg);
            let had_error = error.get();
            error.set(had_error && is_many.get());
            if had_error { Fate::Fail(errno::EHOSTUNREACH) } else { Fate::Kernel }
        });
        fault::judge_sends(Some(Box::new(move |dest, _| {
            let fails = dest == Some(unreachable);
            stored.set(stored.get() || fails && many.get());
            fails.then_some(errno::EHOSTUNREACH)
        })));
        let mut failed = Vec::new();
        let handled = loopback.near.send_each(msgs, |i, _| failed.push(i));
        fault::judge_sends(None);
        fault::script([]);
        assert_eq!((handled.expect("all are handled"), failed), (64, expected), "{backend:?}");
    }
}

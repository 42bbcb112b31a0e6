//! Receives of `Offload`: space for coalesced messages, and counters.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::common::linux::{SOL_UDP, UDP_GRO, set_option, set_raw};
use crate::common::recv::{memory, recv_msgs};
use crate::common::sockets::{addr, has_space_for, settle, udp4};
use crate::common::{numbered, skip};
use mmsg::{BatchSocket, Offload, RecvBatch, RecvMsg, SendMsg};

/// The longest UDP payload that IPv6's length field allows (RFC 8200, RFC 768).
const NEEDED: usize = 65_527;

/// A sender, a receiver with GRO on and its address; prints why and returns `None` without offload.
fn pair() -> Option<(Offload<UdpSocket>, Offload<UdpSocket>, SocketAddr)> {
    let (sender, receiver) = (udp4(), udp4());
    let to = addr(&receiver);
    let sender = Offload::new(sender).expect("a UDP socket");
    let receiver = Offload::new(receiver).expect("a UDP socket");
    if !(sender.state().gso() && receiver.state().gro()) {
        skip("no segmentation offload on this kernel");
        return None;
    }
    Some((sender, receiver, to))
}

fn send(sender: &Offload<UdpSocket>, to: SocketAddr, payloads: &[Vec<u8>]) {
    let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::to(to, payload)).collect();
    assert_eq!(sender.send_batch(&msgs).expect("loopback takes it"), payloads.len());
    settle();
}

#[track_caller]
fn check_rejected(result: std::io::Result<usize>) {
    let error = result.expect_err("there is too little space");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let reason = error.to_string();
    assert!(reason.contains("65527") || reason.contains("65,527"), "{reason}");
}

#[test]
fn buffers_too_small_for_gro_are_rejected_and_nothing_is_lost() {
    let Some((sender, receiver, to)) = pair() else { return };
    let sent = numbered(40, 1_200);
    send(&sender, to, &sent);
    for slot in [1, 1_500, 2_400, NEEDED - 1] {
        check_rejected(receiver.recv_into(&mut RecvBatch::new(64, slot)));
        check_rejected(receiver.recv_into(&mut RecvBatch::new(1, slot)));
        // One message with too little space is enough, at any position.
        for short in [0, 1, 2] {
            let mut memory = memory(3, NEEDED);
            memory[short].truncate(slot);
            check_rejected(receiver.recv_batch(&mut recv_msgs(&mut memory)));
            check_rejected(receiver.recv_batch(&mut recv_msgs(&mut memory)[short..=short]));
        }
    }
    let receive = |memory: &mut [Vec<u8>]| {
        let mut buffers: Vec<_> = memory.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        let mut datagrams = Vec::new();
        let result = receiver.recv_slices(&mut buffers, &mut |_, message| {
            assert_eq!(message.meta().segment_size, Some(1_200));
            assert!(message.addr() == Some(addr(sender.get_ref())) && !message.truncated());
            datagrams.extend(message.datagrams().map(|datagram| datagram.data().to_vec()));
        });
        result.map(|count| (count, datagrams))
    };
    let mut memory = memory(3, NEEDED);
    memory[1].pop();
    check_rejected(receive(&mut memory).map(|(count, _)| count));
    // A message in several buffers could not be split.
    let mut parts = [vec![0; 2], vec![0; NEEDED]];
    let mut buffers = parts.each_mut().map(|part| IoSliceMut::new(part));
    check_rejected(receiver.recv_batch(&mut [RecvMsg::scatter(&mut buffers)]));
    assert_eq!(receiver.state().counters().received, 0);

    memory[1].push(0);
    let (count, datagrams) = receive(&mut memory).expect("they are there");
    assert_eq!(datagrams, sent);
    let counters = receiver.state().counters();
    assert_eq!((counters.received, counters.received_bytes), (40, 48_000));
    assert_eq!((counters.received_coalesced, counters.truncated), (count as u64, 0));
    send(&sender, to, &sent);
    check_received(&receiver, &mut RecvBatch::new(64, NEEDED), &sent);
}

/// Receives as many datagrams as were sent and compares them.
#[track_caller]
fn check_received(receiver: &Offload<UdpSocket>, batch: &mut RecvBatch, sent: &[Vec<u8>]) {
    let mut came = Vec::new();
    while came.len() < sent.len() {
        receiver.recv_into(batch).expect("they are there");
        assert!(!batch.iter().any(|datagram| datagram.truncated()));
        came.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
    }
    assert_eq!(came, sent);
}

/// As documented: without the option the kernel does not tell where the datagrams of a queued message end.
#[test]
fn a_queued_message_arrives_whole_after_gro_is_turned_off() {
    let Some((sender, receiver, to)) = pair() else { return };
    let sent = numbered(40, 100);
    send(&sender, to, &sent);
    receiver.state().disable_gro(receiver.get_ref()).expect("a UDP socket");
    assert!(!receiver.state().gro());
    check_received(&receiver, &mut RecvBatch::new(64, 4_000), &[sent.concat()]);
    // What comes later comes as it was sent.
    send(&sender, to, &sent);
    check_received(&receiver, &mut RecvBatch::new(64, 1_500), &sent);
    // A builder does the same to a socket on which others turned it on.
    let other = receiver.into_inner();
    set_option(&other, SOL_UDP, UDP_GRO, 1).expect("a UDP socket");
    let receiver = Offload::builder().gro(false).build(other).expect("a UDP socket");
    send(&sender, to, &sent);
    check_received(&receiver, &mut RecvBatch::new(64, 1_500), &sent);
}

/// A program may offer more messages than a call takes. The others must cost nothing, not even a check of their
/// capacity.
#[test]
fn messages_beyond_one_call_cost_nothing() {
    const OFFERED: usize = 100_000;
    const MAX_PER_CALL: usize = 1_024;
    let Some((sender, receiver, to)) = pair() else { return };
    if !has_space_for(receiver.get_ref(), MAX_PER_CALL + 6) {
        return;
    }
    let mut long = memory(MAX_PER_CALL, NEEDED);
    let mut short = memory(OFFERED - MAX_PER_CALL, 1);
    let mut msgs = recv_msgs(&mut long);
    msgs.extend(recv_msgs(&mut short));
    let sends = vec![SendMsg::to(to, b"."); OFFERED];
    sender.state().set_gso(false);
    for _ in 0..2 {
        assert_eq!(sender.send_batch(&sends).expect("loopback takes it"), MAX_PER_CALL);
        assert_eq!(sender.send_batch(&sends[..6]).expect("loopback takes it"), 6);
        settle();
        // Messages behind the first 1,024 are not checked.
        assert_eq!(receiver.recv_batch(&mut msgs).expect("they are there"), MAX_PER_CALL);
        assert_eq!(receiver.recv_batch(&mut msgs).expect("they are there"), 6);
        check_rejected(receiver.recv_batch(&mut msgs[1..]));
    }
    drop(msgs);
    let all = long.iter_mut().chain(&mut short);
    let mut buffers: Vec<_> = all.map(|part| IoSliceMut::new(part)).collect();
    send(&sender, to, &[b"one".to_vec(), b"two".to_vec()]);
    let received = receiver.recv_slices(&mut buffers, &mut |_, _| {});
    assert_eq!(received.expect("they are there"), 2);
    check_rejected(receiver.recv_slices(&mut buffers[1..], &mut |_, _| {}));

    // An invalid message ends a send, but is not checked behind the first 1,024 either.
    let port_0 = SendMsg::to(([127, 0, 0, 1], 0).into(), b".");
    for gso in [false, true] {
        sender.state().set_gso(gso);
        for at in [MAX_PER_CALL - 1, MAX_PER_CALL] {
            let mut sends = vec![SendMsg::to(to, b"."); OFFERED];
            sends[at] = port_0;
            assert_eq!(sender.send_batch(&sends).expect("loopback takes it"), at);
        }
    }
}

/// The longest message that the filter lets through.
const LIMIT: u32 = 608;

/// Attaches a classic filter.
fn attach_classic(socket: &UdpSocket) {
    let statement = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut filter = [
        statement((libc::BPF_LD | libc::BPF_W | libc::BPF_LEN) as u16, 0, 0),
        statement((libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16, 1, LIMIT),
        statement((libc::BPF_RET | libc::BPF_K) as u16, 0, 0),
        statement((libc::BPF_RET | libc::BPF_K) as u16, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    set_raw(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program).expect("a valid program");
}

/// Attaches an eBPF program that keeps everything.
fn attach_ebpf(socket: &UdpSocket) -> std::io::Result<()> {
    // `r0 = -1; exit` (include/uapi/linux/bpf.h).
    let program: [u64; 2] = [0xffff_ffff_0000_00b7, 0x95];
    let license = c"MIT";
    // BPF_PROG_TYPE_SOCKET_FILTER, the number of instructions, and where they are; then what the call takes for 0.
    let mut attributes = [0; 16];
    attributes[..3].copy_from_slice(&[
        1 | 2 << 32,
        program.as_ptr() as u64,
        license.as_ptr() as u64,
    ]);
    const BPF_PROG_LOAD: i32 = 5;
    let bytes = size_of_val(&attributes);
    // SAFETY: the attributes name memory that outlives the call, which only reads.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &attributes, bytes) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call has returned a descriptor of its own.
    let program = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, program.as_raw_fd())
}

/// A filter would see the coalesced message, not its datagrams.
#[test]
fn gro_stays_off_on_a_socket_with_a_filter() {
    let Some((sender, ..)) = pair() else { return };
    let (receiver, sent) = (udp4(), numbered(20, 500));
    attach_classic(&receiver);
    let receiver = Offload::new(receiver).expect("a UDP socket");
    assert!(!receiver.state().gro() && receiver.state().gso());
    send(&sender, addr(receiver.get_ref()), &sent);
    check_received(&receiver, &mut RecvBatch::new(64, 1_500), &sent);

    let receiver = udp4();
    match attach_ebpf(&receiver) {
        Ok(()) => assert!(!Offload::new(receiver).expect("a UDP socket").state().gro()),
        Err(error) => skip(format_args!("no eBPF program: {error}")),
    }
}

//! What differs from quinn-udp. `programs/quic/suites.sh` runs quinn-udp's own tests.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{Shutdown, SocketAddr, UdpSocket};

use mmsg_quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::SockRef;

#[cfg(target_os = "linux")]
#[path = "../../../tests/common/mod.rs"]
mod common;
/// `common` needs this constant. No test here depends on the backend.
#[cfg(target_os = "linux")]
const BACKEND: Option<mmsg::Backend> = None;

/// A socket whose receives wait, for at most a minute.
fn bind() -> (UdpSocket, UdpSocketState) {
    bind_at("127.0.0.1:0")
}

fn bind_at(addr: &str) -> (UdpSocket, UdpSocketState) {
    let socket = UdpSocket::bind(addr).expect("a loopback socket");
    let state = UdpSocketState::new((&socket).into()).expect("a state");
    UdpSockRef::from(&socket).set_nonblocking(false).expect("an open socket");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a timeout");
    (socket, state)
}

fn transmit(destination: SocketAddr, contents: &[u8]) -> Transmit<'_> {
    Transmit { destination, ecn: None, contents, segment_size: None, src_ip: None }
}

/// Receives one message into a buffer of `len` bytes.
fn recv((socket, state): &(UdpSocket, UdpSocketState), len: usize) -> (Vec<u8>, RecvMeta) {
    let (mut buffer, mut metas) = (vec![0; len], [RecvMeta::default()]);
    let mut bufs = [IoSliceMut::new(&mut buffer)];
    assert_eq!(state.recv(socket.into(), &mut bufs, &mut metas).expect("a message"), 1);
    buffer.truncate(metas[0].len);
    (buffer, metas[0])
}

#[cfg(target_os = "linux")]
#[test]
fn a_rejected_batch_goes_as_its_datagrams_in_the_same_call() {
    let (to, (socket, state)) = (bind(), bind());
    // Without checksums the kernel rejects GSO batches with `EINVAL`.
    common::linux::set_option(&socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).expect("an option");
    let data: Vec<u8> = (0..9_500).map(|i| (i / 1000) as u8).collect();
    let mut batch = transmit(to.0.local_addr().unwrap(), &data);
    batch.segment_size = Some(1000);
    state.try_send((&socket).into(), &batch).expect("all are sent");
    for datagram in data.chunks(1000) {
        assert_eq!(recv(&to, 65_535).0, datagram);
    }
}

#[test]
fn an_empty_and_a_truncated_datagram_are_empty_and_divide_nothing() {
    let (to, (socket, state)) = (bind(), bind());
    let addr = to.0.local_addr().unwrap();
    for contents in [&[7; 0][..], &[7; 200]] {
        state.try_send((&socket).into(), &transmit(addr, contents)).expect("it is sent");
        let (data, meta) = recv(&to, 100);
        assert_eq!((data.len(), meta.len.div_ceil(meta.stride)), (0, 0));
        assert_eq!(meta.addr, socket.local_addr().unwrap());
    }
}

#[test]
fn a_receive_on_a_shut_down_socket_fails() {
    let (socket, state) = bind();
    socket.connect(socket.local_addr().unwrap()).expect("to itself");
    SockRef::from(&socket).shutdown(Shutdown::Read).expect("it is connected");
    let (mut buffer, mut metas) = (vec![0; 65_535], [RecvMeta::default()]);
    let mut bufs = [IoSliceMut::new(&mut buffer)];
    let error = state.recv((&socket).into(), &mut bufs, &mut metas).expect_err("nothing can come");
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert_eq!(state.recv((&socket).into(), &mut [], &mut []).expect("nothing is asked for"), 0);
}

#[test]
fn short_buffers_turn_gro_off_and_receive_each_datagram() {
    let (to, (socket, state)) = (bind(), bind());
    let data: Vec<u8> = (0..10_000).map(|i| (i / 1000) as u8).collect();
    let mut batch = transmit(to.0.local_addr().unwrap(), &data);
    batch.segment_size = Some(1000);
    state.try_send((&socket).into(), &transmit(batch.destination, b"first")).expect("it is sent");
    assert_eq!(recv(&to, 1500).0, b"first");
    assert_eq!(to.1.gro_segments(), 1);
    state.try_send((&socket).into(), &batch).expect("all are sent");
    for datagram in data.chunks(1000) {
        assert_eq!(recv(&to, 1500).0, datagram);
    }
}

/// Sends `count` datagrams of 1,000 bytes as one GSO batch, which loopback delivers as one coalesced message.
#[cfg(target_os = "linux")]
fn send_train((socket, state): &(UdpSocket, UdpSocketState), to: SocketAddr, count: usize) {
    let data: Vec<u8> = (0..count * 1000).map(|i| (i / 1000) as u8).collect();
    let mut batch = transmit(to, &data);
    batch.segment_size = Some(1000);
    state.try_send(socket.into(), &batch).expect("all are sent");
}

#[cfg(target_os = "linux")]
#[test]
fn buffers_for_the_longest_payload_of_the_family_keep_gro() {
    for (addr, longest) in [("127.0.0.1:0", 65_507), ("[::1]:0", 65_527)] {
        let (to, from) = (bind_at(addr), bind_at(addr));
        for len in [longest, longest - 1] {
            send_train(&from, to.0.local_addr().unwrap(), 5);
            let (data, meta) = recv(&to, len);
            assert_eq!((data.len(), meta.stride), (5_000, 1_000), "{addr}, {len}");
            assert_eq!(to.1.gro_segments() > 1, len == longest, "{addr}, {len}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn of_a_waiting_train_a_short_buffer_gets_the_whole_datagrams_that_fit() {
    let (to, from) = (bind(), bind());
    send_train(&from, to.0.local_addr().unwrap(), 5);
    let (data, meta) = recv(&to, 2_500);
    assert_eq!((meta.len, meta.stride), (2_000, 1_000));
    assert!(data.iter().enumerate().all(|(i, byte)| usize::from(*byte) == i / 1000));
    assert_eq!(to.1.gro_segments(), 1);
}

/// quinn-udp leaves one.
#[cfg(target_os = "linux")]
#[test]
fn a_send_that_no_path_takes_leaves_more_than_one_report() {
    let (socket, state) = bind_at("[::1]:0");
    state.enable_transport_errors((&socket).into()).expect("Linux has them");
    let too_long = vec![0; 65_600];
    let to = socket.local_addr().unwrap();
    state.try_send((&socket).into(), &transmit(to, &too_long)).expect_err("it is too long");
    let reports =
        std::iter::from_fn(|| state.recv_transport_error((&socket).into()).expect("a queue"));
    assert!(reports.count() > 1);
}

/// quinn-udp's is `unsafe` and has a body on Apple's systems alone.
#[test]
#[allow(unused_unsafe)]
fn apples_fast_path_is_there_and_changes_nothing() {
    let (to, (socket, state)) = (bind(), bind());
    // SAFETY: the function does nothing.
    unsafe { state.set_apple_fast_path() };
    assert!(!state.is_apple_fast_path_enabled());
    let addr = to.0.local_addr().unwrap();
    state.try_send((&socket).into(), &transmit(addr, b"as before")).expect("it is sent");
    assert_eq!(recv(&to, 65_535).0, b"as before");
}

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
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
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

//! Edge cases of Unix addresses: a path that fills its memory, and an empty abstract name.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::{fs, io, mem, process};

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg, UnixAddr};

use crate::common::{choose_backend, no_failure};

/// A `sockaddr_un` with exactly these bytes after the family, and its length. The second, zeroed one is for valgrind,
/// which reads a path up to a zero.
fn raw_addr(path: &[u8]) -> ([libc::sockaddr_un; 2], libc::socklen_t) {
    // SAFETY: all zeros are a valid `sockaddr_un`.
    let mut addr: [libc::sockaddr_un; 2] = unsafe { mem::zeroed() };
    addr[0].sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, byte) in addr[0].sun_path.iter_mut().zip(path) {
        *to = *byte as libc::c_char;
    }
    let family = mem::offset_of!(libc::sockaddr_un, sun_path);
    (addr, (family + path.len()) as libc::socklen_t)
}

/// A socket bound to these bytes. std rejects the addresses of these tests.
fn bound(path: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    let (addr, len) = raw_addr(path);
    // SAFETY: `addr` outlives the call and has at least `len` bytes.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), len) } {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends with `sendto` to the address with these bytes.
fn raw_send(from: &UnixDatagram, path: &[u8], data: &[u8]) -> io::Result<()> {
    let (addr, len) = raw_addr(path);
    let (fd, start) = (from.as_raw_fd(), data.as_ptr().cast());
    // SAFETY: `addr` and `data` outlive the call and have at least these lengths.
    match unsafe { libc::sendto(fd, start, data.len(), 0, (&raw const addr).cast(), len) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The peer asks the server, which answers in every way.
#[track_caller]
fn check_answers(peer: &UnixDatagram, path: &[u8], expected: UnixAddr<'_>) {
    let name = format!("\0mmsg-edges-{}-{:?}-{}", process::id(), crate::BACKEND, path.len());
    let server = bound(name.as_bytes()).expect("a name of its own");
    peer.set_nonblocking(true).expect("an open socket");
    let offload = Offload::new(server.try_clone().expect("a descriptor")).expect("a socket");
    let sockets: [&dyn BatchSocket; 2] = [&server, &offload];
    let mut batch = RecvBatch::new(4, 16);
    for socket in sockets {
        for data in [b"one", b"two"] {
            raw_send(peer, name.as_bytes(), data).expect("it is taken");
        }
        assert_eq!(socket.recv_into(&mut batch).expect("they are there"), 2);
        assert!(batch.iter().all(|datagram| datagram.unix_addr() == Some(expected)));
        let answers: Vec<_> = batch.iter().filter_map(|d| d.reply(d.data())).collect();
        // The system's own call reaches the peer, too.
        raw_send(&server, path, b"raw").expect("it is taken");
        assert_eq!(socket.send_batch(&answers).expect("they are taken"), 2);
        let sent = socket.send_each(&answers, no_failure);
        assert_eq!(sent.expect("they are taken"), 2);
        let to_it = SendMsg::to_unix(expected, b"made");
        assert_eq!(socket.send_batch(&[to_it]).expect("it is taken"), 1);
        let mut bytes = [0; 16];
        for expected in ["raw", "one", "two", "one", "two", "made"] {
            let len = peer.recv(&mut bytes).expect("it was sent");
            assert_eq!(&bytes[..len], expected.as_bytes());
        }
        assert!(peer.recv(&mut bytes).is_err());
    }
}

#[test]
fn a_peer_whose_path_fills_its_memory_is_answered() {
    choose_backend();
    let folder = format!("/tmp/mmsg-edges-{}-{:?}", process::id(), crate::BACKEND);
    fs::create_dir_all(&folder).expect("a folder for a socket");
    let path = format!("{folder}/{}", "x".repeat(108 - folder.len() - 1));
    let peer = bound(path.as_bytes()).expect("108 bytes without a zero byte");
    check_answers(&peer, path.as_bytes(), UnixAddr::Path(path.as_ref()));
    fs::remove_dir_all(&folder).expect("it is the test's own");
}

/// Only one socket of a network namespace can have this name.
#[test]
fn a_peer_whose_abstract_name_has_no_bytes_is_answered() {
    choose_backend();
    let name = "a_peer_whose_abstract_name_has_no_bytes_is_answered";
    crate::common::linux::in_namespace(name, || {
        let peer = bound(b"\0").expect("nobody else is here");
        check_answers(&peer, b"\0", UnixAddr::Abstract(b""));
    });
}

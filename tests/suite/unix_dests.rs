//! Datagrams to addresses of Unix sockets, and answers to each address that a peer may have.

use std::ffi::OsStr;
use std::io::{ErrorKind, IoSlice};
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixDatagram;

use mmsg::errors::PushError;
use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg, SendQueue, UnixAddr};

use super::unix_sources::Folder;
use crate::common::linux::in_namespace;
use crate::common::sockets::{addr, udp4};
use crate::common::{choose_backend, no_failure};

/// A socket bound to these bytes after the family; a zero begins an abstract name. std rejects some of these addresses.
fn bound(path: &[u8]) -> UnixDatagram {
    let socket = UnixDatagram::unbound().expect("a socket");
    // The second, zeroed address is for valgrind, which reads a path up to a zero.
    // SAFETY: all zeros are a valid `sockaddr_un`.
    let mut addr: [libc::sockaddr_un; 2] = unsafe { mem::zeroed() };
    addr[0].sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, byte) in addr[0].sun_path.iter_mut().zip(path) {
        *to = *byte as libc::c_char;
    }
    let len = (mem::offset_of!(libc::sockaddr_un, sun_path) + path.len()) as libc::socklen_t;
    // SAFETY: `addr` outlives the call and has at least `len` bytes.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    socket
}

fn unix_addr(path: &[u8]) -> UnixAddr<'_> {
    match path {
        [0, name @ ..] => UnixAddr::Abstract(name),
        _ => UnixAddr::Path(OsStr::from_bytes(path).as_ref()),
    }
}

/// A server and peers with a short path, with std's longest, with one that fills its memory, and with an abstract name.
struct Net {
    server: UnixDatagram,
    peers: Vec<UnixDatagram>,
    names: Vec<Vec<u8>>,
    _folder: Folder,
}

impl Net {
    fn new(name: &str) -> Self {
        let of_one = format!("\0mmsg-{name}-{}-{:?}", std::process::id(), crate::BACKEND);
        Self::with(name, of_one.into_bytes())
    }

    fn with(name: &str, abstract_name: Vec<u8>) -> Self {
        choose_backend();
        let folder = Folder::new(name);
        let path = folder.path("s", 0);
        let server = UnixDatagram::bind(&path).expect("a path of our own");
        let paths = [("p", 0), ("long", 107), ("longest", 108)];
        let paths = paths.map(|(name, len)| folder.path(name, len).into_os_string().into_vec());
        let names: Vec<_> = paths.into_iter().chain([abstract_name]).collect();
        let peers: Vec<_> = names.iter().map(|name| bound(name)).collect();
        for peer in &peers {
            peer.connect(&path).expect("the server is there");
        }
        Self { server, peers, names, _folder: folder }
    }

    /// Each peer sends two questions.
    fn ask(&self) {
        for peer in self.peers.iter().chain(&self.peers) {
            peer.send(b"question").expect("it is taken");
        }
    }

    /// Each peer has exactly two answers.
    #[track_caller]
    fn check(&self) {
        for peer in &self.peers {
            peer.set_nonblocking(true).expect("a socket");
            let mut bytes = [0; 16];
            for _ in 0..2 {
                let len = peer.recv(&mut bytes).expect("it was answered");
                assert_eq!(&bytes[..len], b"question");
            }
            assert!(peer.recv(&mut bytes).is_err(), "more came");
        }
    }
}

fn answers<'b>(batch: &'b RecvBatch) -> impl Iterator<Item = SendMsg<'b>> {
    batch.iter().filter_map(|datagram| datagram.reply(datagram.data()))
}

/// As datagrams, as messages, in place, and by the peers' names.
fn answer_every_way(socket: &dyn BatchSocket, net: &Net) {
    let mut batch = RecvBatch::new(9, 100);
    for way in 0..4 {
        net.ask();
        assert_eq!(socket.recv_into(&mut batch).expect("eight are there"), 8);
        let names = net.names.iter().cycle().map(|name| unix_addr(name)).take(8);
        assert!(batch.iter().map(|datagram| datagram.unix_addr()).eq(names.clone().map(Some)));
        let sent = match way {
            0 => socket.send_batch(&answers(&batch).collect::<Vec<_>>()),
            1 => {
                let replies = batch.messages().filter_map(|msg| msg.reply(msg.data()));
                socket.send_each(replies, no_failure)
            }
            2 => {
                let datagrams = batch.iter_mut().map(|datagram| datagram.into_datagram());
                socket.send_each(datagrams.filter_map(|d| d.reply(d.data())), no_failure)
            }
            _ => {
                socket.send_each(names.map(|name| SendMsg::to_unix(name, b"question")), no_failure)
            }
        };
        assert_eq!(sent.expect("they are taken"), 8, "way {way}");
        net.check();
    }
}

fn answer_on_both(net: &Net) {
    answer_every_way(&net.server, net);
    let server = net.server.try_clone().expect("a descriptor");
    answer_every_way(&Offload::new(server).expect("a socket"), net);
}

#[test]
fn a_unix_server_answers_every_named_peer() {
    answer_on_both(&Net::new("dests"));
    // Only one socket of a network namespace can have an abstract name without bytes.
    in_namespace(|| {
        answer_on_both(&Net::with("dests-empty", b"\0".to_vec()));
    });
}

#[test]
fn an_unnamed_peer_gets_no_reply() {
    let net = Net::new("dests-unnamed");
    let server = net.server.local_addr().expect("it has one");
    let server = server.as_pathname().expect("it has a path");
    let unnamed = UnixDatagram::unbound().expect("a socket");
    let parts = [IoSlice::new(b"he"), IoSlice::new(b"llo")];
    let msg = SendMsg::gather(&parts).with_unix_dest(UnixAddr::Path(server));
    assert_eq!(unnamed.send_batch(&[msg]).expect("it is taken"), 1);
    let mut batch = RecvBatch::new(1, 8);
    assert_eq!(net.server.recv_into(&mut batch).expect("it is there"), 1);
    assert_eq!(batch.iter().next().map(|datagram| datagram.data()), Some(&b"hello"[..]));
    assert_eq!(answers(&batch).count(), 0);
}

/// The error is about the message with the address; earlier messages are sent.
#[test]
fn an_invalid_unix_address_fails_only_its_message() {
    let net = Net::new("dests-wrong");
    let offload = Offload::new(net.server.try_clone().expect("a descriptor")).expect("a socket");
    let good = SendMsg::to_unix(unix_addr(&net.names[0]), b"question");
    let long = "x".repeat(200);
    for wrong in [UnixAddr::Unnamed, UnixAddr::Path(long.as_ref()), UnixAddr::Path("".as_ref())] {
        let bad = good.with_unix_dest(wrong);
        let sockets: [&dyn BatchSocket; 2] = [&net.server, &offload];
        for socket in sockets {
            assert_eq!(socket.send_batch(&[good, bad, good]).expect("one is good"), 1);
            let error = socket.send_batch(&[bad, good]).expect_err("it is no address");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("unix_dest"), "{error}");
            assert_eq!(net.peers[0].recv(&mut [0; 16]).expect("it was sent"), 8);
        }
    }
    // The system rejects these: no socket has the address, or it is of another family.
    let nobody = good.with_unix_dest(UnixAddr::Abstract(b"mmsg: nobody has this name"));
    let error = net.server.send_batch(&[nobody]).expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let (internet, other) = (udp4(), udp4());
    assert!(internet.send_batch(&[nobody]).is_err());
    assert_eq!(internet.send_batch(&[SendMsg::to(addr(&other), b"on")]).expect("taken"), 1);
}

/// A queue stores no Unix address. On a connected socket its datagrams need none.
#[test]
fn a_queue_works_on_a_connected_unix_socket() {
    let net = Net::new("dests-queue");
    let peer = &net.peers[0];
    let offload = Offload::new(peer.try_clone().expect("a descriptor")).expect("a socket");
    let (mut queue, mut batch) = (SendQueue::new(1 << 16), RecvBatch::new(8, 100));
    let sockets: [&dyn BatchSocket; 2] = [peer, &offload];
    for socket in sockets {
        let texts = [&b"one"[..], b"", b"three"];
        texts.iter().for_each(|text| queue.push(&SendMsg::new(text)).expect("there is space"));
        assert_eq!(socket.flush(&mut queue).expect("they are taken"), 3);
        assert_eq!(net.server.recv_into(&mut batch).expect("they are there"), 3);
        assert!(batch.iter().map(|datagram| datagram.data()).eq(texts));
        let answer = answers(&batch).next().expect("the peer has a name");
        assert_eq!(queue.push(&answer), Err(PushError::HasUnixDest));
        assert!(queue.is_empty());
    }
}

/// Unix sockets have no ICMP errors: "connection refused" is about the present message, which meets it again.
#[test]
fn a_peer_that_is_gone_fails_its_own_message_and_no_other() {
    let net = Net::new("gone");
    let folder = Folder::new("gone-peer");
    let path = folder.path("gone", 0);
    // The name still exists, but its socket is closed.
    drop(UnixDatagram::bind(&path).expect("a path of our own"));
    let dests = [unix_addr(&net.names[0]), UnixAddr::Path(&path)];
    let [live, gone] = dests.map(|dest| SendMsg::to_unix(dest, b"question"));
    let plain = net.server.try_clone().expect("a second descriptor");
    let offload = Offload::new(plain.try_clone().expect("a third")).expect("a socket");
    let sockets: [&dyn BatchSocket; 2] = [&plain, &offload];
    for socket in sockets {
        assert_eq!(socket.send_batch(&[live, gone, live]).expect("the first is taken"), 1);
        assert_eq!(socket.send_batch(&[live]).expect("nothing is left over"), 1);
        let error = socket.send_batch(&[gone, live]).expect_err("nobody is there");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(socket.send_batch(&[live]).expect("nothing is left over"), 1);
        let mut buffer = [0; 16];
        (0..3).for_each(|_| assert_eq!(net.peers[0].recv(&mut buffer).expect("it was sent"), 8));
    }
}

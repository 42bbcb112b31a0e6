//! Datagrams to addresses of Unix sockets.

use std::io::{ErrorKind, IoSlice};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use mmsg::errors::PushError;
use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg, SendQueue, UnixAddr};

use super::unix_sources::Folder;
use crate::common::sockets::{addr, udp4};
use crate::common::{choose_backend, no_failure};

/// A server and three peers: with a short path, the longest path and an abstract name.
struct Net {
    server: UnixDatagram,
    peers: [UnixDatagram; 3],
    _folder: Folder,
}

impl Net {
    fn new(name: &str) -> Self {
        choose_backend();
        let folder = Folder::new(name);
        let path = folder.path("s", 0);
        let server = UnixDatagram::bind(&path).expect("a path of our own");
        let bind = |path: &Path| UnixDatagram::bind(path).expect("a path of our own");
        let name = format!("mmsg-{name}-{}-{:?}", std::process::id(), crate::BACKEND);
        let name = SocketAddr::from_abstract_name(name).expect("it is short");
        let named = UnixDatagram::bind_addr(&name).expect("a name of our own");
        let peers = [bind(&folder.path("p", 0)), bind(&folder.path("long", 107)), named];
        for peer in &peers {
            peer.connect(&path).expect("the server is there");
        }
        Self { server, peers, _folder: folder }
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

/// As datagrams, as messages and in place.
fn answer_every_way(socket: &dyn BatchSocket, net: &Net) {
    let mut batch = RecvBatch::new(8, 100);
    for way in 0..3 {
        net.ask();
        assert_eq!(socket.recv_into(&mut batch).expect("six are there"), 6);
        let sent = match way {
            0 => socket.send_batch(&answers(&batch).collect::<Vec<_>>()),
            1 => {
                let replies = batch.messages().filter_map(|msg| msg.reply(msg.data()));
                socket.send_each(replies, no_failure)
            }
            _ => {
                let datagrams = batch.iter_mut().map(|datagram| datagram.into_datagram());
                socket.send_each(datagrams.filter_map(|d| d.reply(d.data())), no_failure)
            }
        };
        assert_eq!(sent.expect("they are taken"), 6, "way {way}");
        net.check();
    }
}

#[test]
fn a_unix_server_answers_every_named_peer() {
    let net = Net::new("dests");
    answer_every_way(&net.server, &net);
    let server = net.server.try_clone().expect("a descriptor");
    answer_every_way(&Offload::new(server).expect("a socket"), &net);
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
    let peer = net.peers[0].local_addr().expect("it has one");
    let good = SendMsg::to_unix(UnixAddr::Path(peer.as_pathname().expect("a path")), b"question");
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
    let [peer, ..] = &net.peers;
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
    let live = net.peers[0].local_addr().expect("it is bound");
    let folder = Folder::new("gone-peer");
    let path = folder.path("gone", 0);
    // The name still exists, but its socket is closed.
    drop(UnixDatagram::bind(&path).expect("a path of our own"));
    let live = UnixAddr::Path(live.as_pathname().expect("it has a path"));
    let [live, gone] =
        [live, UnixAddr::Path(&path)].map(|dest| SendMsg::to_unix(dest, b"question"));
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

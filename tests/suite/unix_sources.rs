//! Source addresses of datagrams on Unix sockets.

use std::io::{self, IoSliceMut};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::{env, fs, process};

use mmsg::{BatchSocket, Message, RecvBatch, RecvMsg, SendMsg, UnixAddr};

use crate::common::choose_backend;

/// A temporary folder, removed with the value.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let path =
            env::temp_dir().join(format!("mmsg-{name}-{}-{:?}", process::id(), crate::BACKEND));
        fs::create_dir_all(&path).expect("a folder for sockets");
        Self(path)
    }

    /// A path of `len` bytes in all, or the shortest possible if that is longer.
    pub(super) fn path(&self, name: &str, len: usize) -> PathBuf {
        let start = self.0.join(name);
        let missing = len.saturating_sub(start.as_os_str().len());
        let mut path = start.into_os_string();
        path.push("x".repeat(missing));
        path.into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A source address, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Unnamed,
    Path(PathBuf),
    Abstract(Vec<u8>),
    /// Not an address of a Unix socket.
    Other,
}

impl From<Option<UnixAddr<'_>>> for Source {
    fn from(addr: Option<UnixAddr<'_>>) -> Self {
        match addr {
            Some(UnixAddr::Unnamed) => Self::Unnamed,
            Some(UnixAddr::Path(path)) => Self::Path(path.to_owned()),
            Some(UnixAddr::Abstract(name)) => Self::Abstract(name.to_owned()),
            None => Self::Other,
        }
    }
}

/// Receives a message in each way and compares the sources.
fn check(server: &UnixDatagram, expected: &[Source], send: impl Fn()) {
    let mut batch = RecvBatch::new(8, 64);
    send();
    assert_eq!(server.recv_into(&mut batch).expect("they are there"), expected.len());
    assert!(batch.iter().map(|d| Source::from(d.unix_addr())).eq(expected.iter().cloned()));
    assert!(batch.messages().map(|m| Source::from(m.unix_addr())).eq(expected.iter().cloned()));
    let in_place = batch.iter_mut().map(|d| Source::from(d.into_datagram().unix_addr()));
    assert!(in_place.eq(expected.iter().cloned()));
    assert!(batch.iter().all(|datagram| datagram.addr().is_none()));

    send();
    let mut memory = vec![[0; 64]; 8];
    let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    let mut sources = Vec::new();
    let mut each = |_, m: Message<'_>| sources.push(Source::from(m.unix_addr()));
    let count = server.recv_slices(&mut buffers, &mut each);
    assert_eq!(count.expect("they are there"), expected.len());
    assert_eq!(sources, expected);

    send();
    let mut msgs: Vec<_> = memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect();
    assert_eq!(server.recv_batch(&mut msgs).expect("they are there"), expected.len());
    for (msg, expected) in msgs.iter().zip(expected) {
        assert_eq!(&Source::from(msg.message().unix_addr()), expected);
        let mut datagrams = msg.message().datagrams();
        let datagram = datagrams.next().expect("one");
        assert_eq!(&Source::from(datagram.unix_addr()), expected);
    }

    // Wraps a socket, so that the trait's provided methods are used.
    struct Wrapper<'a>(&'a UnixDatagram);
    impl BatchSocket for Wrapper<'_> {
        fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
            self.0.recv_batch(msgs)
        }
        fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
            self.0.send_batch(msgs)
        }
    }
    send();
    let wrapper = Wrapper(server);
    assert_eq!(wrapper.recv_into(&mut batch).expect("they are there"), expected.len());
    assert!(batch.iter().map(|d| Source::from(d.unix_addr())).eq(expected.iter().cloned()));
}

#[test]
fn paths_of_any_length_are_readable() {
    choose_backend();
    let folder = Folder::new("paths");
    let at = folder.path("server", 0);
    let server = UnixDatagram::bind(&at).expect("a server");
    // std accepts up to 107 bytes on Linux, and 103 or more everywhere.
    let lens = [0, 60, 90, 103];
    let paths = lens.map(|len| folder.path(&format!("c{len}-"), len));
    let clients = paths.each_ref().map(|path| UnixDatagram::bind(path).expect("a client"));
    let unnamed = UnixDatagram::unbound().expect("a client without a name");
    let mut expected: Vec<_> = paths.into_iter().map(Source::Path).collect();
    expected.insert(2, Source::Unnamed);
    check(&server, &expected, || {
        let (first, last) = clients.split_at(2);
        for client in first.iter().chain([&unnamed]).chain(last) {
            client.send_to(b"hello", &at).expect("the queue has space");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn abstract_names_may_have_any_bytes() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    choose_backend();
    let unique = format!("mmsg-{}-{:?}", process::id(), crate::BACKEND).into_bytes();
    let names =
        [&unique[..], &[&unique[..], &[0, 0xFF, 0]].concat(), &[&unique[..], &[b'x'; 60]].concat()]
            .map(<[u8]>::to_vec);
    let bind = |name: &[u8]| {
        let addr = SocketAddr::from_abstract_name(name).expect("a name");
        UnixDatagram::bind_addr(&addr).expect("a socket of that name")
    };
    let server = bind(&[&unique[..], b"server"].concat());
    let to = server.local_addr().expect("it is bound");
    let clients = names.each_ref().map(|name| bind(name));
    let expected = names.map(Source::Abstract);
    check(&server, &expected, || {
        for client in &clients {
            client.send_to_addr(b"hello", &to).expect("the queue has space");
        }
    });
}

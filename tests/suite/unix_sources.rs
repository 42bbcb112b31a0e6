//! Source addresses of datagrams on Unix sockets.

use std::io::IoSliceMut;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::{env, fs, process};

use mmsg::{BatchSocket, Message, RecvBatch, RecvMsg, UnixAddr};

use crate::common::{ReceivesBy, choose_backend};

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

fn same<'a>(seen: impl Iterator<Item = Option<UnixAddr<'a>>>, expected: &[UnixAddr<'a>]) -> bool {
    seen.eq(expected.iter().map(|source| Some(*source)))
}

/// Receives a message in each way and compares the sources.
fn check(server: &UnixDatagram, sources: &[UnixAddr<'_>], send: impl Fn()) {
    let mut batch = RecvBatch::new(8, 64);
    send();
    assert_eq!(server.recv_into(&mut batch).expect("they are there"), sources.len());
    assert!(same(batch.iter().map(|d| d.unix_addr()), sources));
    assert!(same(batch.messages().map(|m| m.unix_addr()), sources));
    let in_place = batch.iter_mut().map(|d| d.into_datagram().unix_addr());
    assert!(same(in_place, sources));
    assert!(batch.iter().all(|datagram| datagram.addr().is_none()));

    send();
    let mut memory = vec![[0; 64]; 8];
    let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    let mut each = |i, m: Message<'_>| assert_eq!(m.unix_addr(), Some(sources[i]));
    let count = server.recv_slices(&mut buffers, &mut each);
    assert_eq!(count.expect("they are there"), sources.len());

    send();
    let mut msgs: Vec<_> = memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect();
    assert_eq!(server.recv_batch(&mut msgs).expect("they are there"), sources.len());
    let seen = msgs.iter().zip(sources).map(|(msg, _)| msg.message());
    assert!(same(seen.clone().map(|message| message.unix_addr()), sources));
    assert!(same(seen.flat_map(|message| message.datagrams()).map(|d| d.unix_addr()), sources));

    send();
    // Has the trait's provided methods.
    let wrapper = ReceivesBy(|msgs: &mut [RecvMsg<'_>]| server.recv_batch(msgs));
    assert_eq!(wrapper.recv_into(&mut batch).expect("they are there"), sources.len());
    assert!(same(batch.iter().map(|d| d.unix_addr()), sources));
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
    let mut expected: Vec<_> = paths.iter().map(|path| UnixAddr::Path(path)).collect();
    expected.insert(2, UnixAddr::Unnamed);
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
    let expected = names.each_ref().map(|name| UnixAddr::Abstract(name));
    check(&server, &expected, || {
        for client in &clients {
            client.send_to_addr(b"hello", &to).expect("the queue has space");
        }
    });
}

//! Two sockets of any family and handles to them: everything that depends on the kind of socket.

use std::net::{SocketAddr, UdpSocket};
#[cfg(unix)]
use std::os::unix::net::UnixDatagram;

use mmsg::{Ancillary, BatchSocket, Offload};
use socket2::SockRef;

use super::ops::{Config, Family, Kind};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{BorrowedHandle, addr, borrow, udp4, udp6, wait_readable};

/// A handle to one of the sockets.
pub enum End {
    Udp(UdpSocket),
    Offload(Box<Offload<UdpSocket>>, Kind),
    #[cfg(unix)]
    Unix(UnixDatagram),
}

impl End {
    fn udp(socket: UdpSocket, kind: Kind) -> Self {
        match kind {
            Kind::Plain => Self::Udp(socket),
            Kind::Offload { gso, gro } => {
                let builder = Offload::builder().gso(gso).gro(gro);
                let offload = builder.build(socket).expect("a UDP socket");
                Self::Offload(Box::new(offload), kind)
            }
        }
    }

    pub fn another(&self) -> Self {
        let udp = |socket: &UdpSocket| socket.try_clone().expect("a descriptor");
        match self {
            Self::Udp(socket) => Self::Udp(udp(socket)),
            Self::Offload(socket, kind) => Self::udp(udp(socket.get_ref()), *kind),
            #[cfg(unix)]
            Self::Unix(socket) => Self::Unix(socket.try_clone().expect("a descriptor")),
        }
    }

    pub fn socket(&self) -> &dyn BatchSocket {
        match self {
            Self::Udp(socket) => socket,
            Self::Offload(socket, _) => &**socket,
            #[cfg(unix)]
            Self::Unix(socket) => socket,
        }
    }

    fn handle(&self) -> BorrowedHandle<'_> {
        match self {
            Self::Udp(socket) => borrow(socket),
            Self::Offload(socket, _) => borrow(socket.get_ref()),
            #[cfg(unix)]
            Self::Unix(socket) => borrow(socket),
        }
    }

    pub fn has_gro(&self) -> bool {
        matches!(self, Self::Offload(socket, _) if socket.gro())
    }

    pub fn set_gso(&self, on: bool) {
        if let Self::Offload(socket, _) = self {
            let _ = socket.set_gso(on);
        }
    }

    /// Waits until there is something to receive.
    pub fn wait_readable(&self) {
        assert!(wait_readable(self.handle()), "what was sent does not come");
    }
}

/// The two sockets, shared by all threads.
pub struct Net {
    pub ends: [End; 2],
    /// Their addresses; `None` for Unix sockets.
    pub addrs: Option<[SocketAddr; 2]>,
    pub connected: bool,
    /// Whether the kernel has GSO.
    pub gso: bool,
    /// The limit for datagrams waiting in each socket, by their [`cost`].
    pub budget: usize,
}

/// Bytes of the receive buffer that a datagram costs with the kernel's overhead, rounded up.
pub fn cost(len: usize) -> usize {
    2_048 + 2 * len
}

impl Net {
    /// `None` if the machine lacks the family.
    pub fn new(config: Config) -> Option<Self> {
        if config.family == Family::Unix {
            return Self::unix();
        }
        let new = || if config.family == Family::V4 { Some(udp4()) } else { udp6() };
        let sockets = [new()?, new()?];
        let addrs = sockets.each_ref().map(addr);
        let gso = Offload::new(udp4()).expect("a UDP socket").gso();
        let mut budget = usize::MAX;
        for (socket, other) in sockets.iter().zip([1, 0]) {
            socket.set_nonblocking(true).expect("a UDP socket");
            // Half of it, because the kernel frees the space of received datagrams a little later.
            let space = SockRef::from(socket).recv_buffer_size().expect("a UDP socket");
            budget = budget.min(space / 2);
            // Without a count of drops, everything that was sent must arrive.
            let _ = Ancillary::DROPPED.enable(socket).expect("a UDP socket");
            if config.connected {
                socket.connect(addrs[other]).expect("connecting only stores the peer");
            }
        }
        let [a, b] = sockets;
        let ends = [End::udp(a, config.kinds[0]), End::udp(b, config.kinds[1])];
        Some(Self { ends, addrs: Some(addrs), connected: config.connected, gso, budget })
    }

    #[cfg(not(unix))]
    fn unix() -> Option<Self> {
        None
    }

    #[cfg(unix)]
    fn unix() -> Option<Self> {
        let (a, b) = unix_pair();
        for socket in [&a, &b] {
            socket.set_nonblocking(true).expect("a Unix socket");
            // The smallest possible buffer, which is soon full.
            SockRef::from(socket).set_send_buffer_size(1).expect("a Unix socket");
        }
        let ends = [End::Unix(a), End::Unix(b)];
        Some(Self { ends, addrs: None, connected: true, gso: false, budget: usize::MAX })
    }

    /// Sends `data` to socket `to` with the standard library.
    pub fn send_plainly(&self, to: usize, data: &[u8]) {
        let sent = match (&self.ends[1 - to], self.addrs) {
            #[cfg(unix)]
            (End::Unix(socket), _) => socket.send(data),
            (End::Udp(socket), Some(_)) if self.connected => socket.send(data),
            (End::Offload(socket, _), Some(_)) if self.connected => socket.get_ref().send(data),
            (_, Some(addrs)) if addrs[to].is_ipv4() => udp4().send_to(data, addrs[to]),
            (_, Some(addrs)) => udp6().expect("it was there").send_to(data, addrs[to]),
            (_, None) => unreachable!("only Unix sockets have no address"),
        };
        assert_eq!(sent.expect("it is taken"), data.len());
    }
}

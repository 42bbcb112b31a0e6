//! The builder of a group: its settings, and how its sockets are bound.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use socket2::{SockRef, Socket};

use crate::group::{Prepare, ReusePortGroup};
use crate::spread::Spread;
use crate::sys;

/// Settings of a [`ReusePortGroup`].
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use mmsg_reuseport::ReusePortGroup;
///
/// let group = ReusePortGroup::builder("127.0.0.1:0".parse().unwrap())
///     .members(2)
///     .prepare(|socket| socket.set_recv_buffer_size(1 << 20))
///     .bind()?;
/// assert_eq!(group.into_iter().count(), 2);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "call `bind` to make the group"]
pub struct ReusePortGroupBuilder {
    /// Without members yet.
    group: ReusePortGroup,
    count: Option<usize>,
    exclusive: bool,
}

/// How a group begins.
impl ReusePortGroup {
    /// Binds `members` sockets to `addr`, spread by flow. With port 0 the system chooses one port for
    /// all.
    ///
    /// # Errors
    ///
    /// The errors of [`ReusePortGroupBuilder::bind`].
    pub fn bind(addr: SocketAddr, members: usize) -> io::Result<Self> {
        Self::builder(addr).members(members).bind()
    }

    /// Makes a group of sockets that are bound already: by the process before this one, a parent or systemd. The README has a
    /// server that hands its sockets over.
    ///
    /// Pass them in the order in which they joined: the kernel numbers them so, and does not tell. When a member was closed
    /// everywhere, the last one has its number. `spread` replaces the sockets' own. The sockets keep their options; members that
    /// [`join`](Self::join) later have none.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg_reuseport::{ReusePortGroup, Spread};
    /// let old = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
    /// let sockets = old.into_iter().collect();
    /// let new = ReusePortGroup::from_sockets(sockets, Spread::RANDOM)?;
    /// assert_eq!(new.members().len(), 2);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no socket, and for sockets that the kernel does not take for one group: not of UDP, unbound, without
    /// `SO_REUSEPORT`, on different addresses or interfaces, IPv6-only beside dual-stack, a duplicate (`try_clone`; Linux). The
    /// error says which socket. Sockets of another network namespace, and groups that have left, are not recognized.
    /// `Unsupported` where a group has one member; else the system's error, or the spread's. All sockets are closed then.
    pub fn from_sockets(sockets: Vec<UdpSocket>, spread: Spread) -> io::Result<Self> {
        let invalid = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        let Some(first) = sockets.first() else { return invalid("a group has a member".into()) };
        let (addr, scope) = (first.local_addr()?, sys::scope(&SockRef::from(first)));
        let mut cookies = HashSet::new();
        for (index, socket) in sockets.iter().enumerate() {
            let raw = SockRef::from(socket);
            let is_again = sys::cookie(&raw).is_some_and(|cookie| !cookies.insert(cookie));
            let faults = [
                (!sys::is_udp(&raw)?, "is not a UDP socket"),
                (socket.local_addr()?.port() == 0, "is not bound"),
                (!sys::is_shared(&raw)?, "does not share its address (SO_REUSEPORT)"),
                (socket.local_addr()? != addr, "has another address than socket 0"),
                (sys::scope(&raw) != scope, "differs from socket 0 in IPV6_V6ONLY or device"),
                (is_again, "is there twice: it has a duplicate before it"),
            ];
            if let Some((_, reason)) = faults.iter().find(|(is_wrong, _)| *is_wrong) {
                return invalid(format!("socket {index} {reason}"));
            }
        }
        let prepare = Prepare(Box::new(|_| Ok(())));
        let group = Self { members: sockets, addr, spread, prepare };
        group.attach_spread()?;
        Ok(group)
    }

    /// Chooses how many members there are, how datagrams are spread, and which options the sockets have.
    pub fn builder(addr: SocketAddr) -> ReusePortGroupBuilder {
        let prepare = Prepare(Box::new(|_| Ok(())));
        let group = Self { members: Vec::new(), addr, spread: Spread::FLOW, prepare };
        ReusePortGroupBuilder { group, count: None, exclusive: false }
    }
}

impl ReusePortGroupBuilder {
    /// Sets the number of members. By default there is one for each CPU that the process may use. Where the system does not
    /// spread datagrams, [`bind`](Self::bind) fails with `Unsupported` unless it is 1 (see [`ReusePortGroup`], "Platforms").
    pub fn members(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    /// Sets how datagrams are spread: [`Spread::FLOW`] by default.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg_reuseport::{ReusePortGroup, Spread};
    /// let addr = "127.0.0.1:0".parse().unwrap();
    /// let group = ReusePortGroup::builder(addr).members(2).spread(Spread::CPU).bind()?;
    /// # let _ = group;
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spread(mut self, spread: Spread) -> Self {
        self.group.spread = spread;
        self
    }

    /// Sets whether binding fails with `AddrInUse` if another socket has the address. By default, the group
    /// shares the address with other groups of the same user. In either case, a group on port 0 gets a port
    /// that no other socket has. Where the system refuses `SO_REUSEPORT`, a group of one member shares nothing.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg_reuseport::ReusePortGroup;
    /// let first = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
    /// let second = ReusePortGroup::builder(first.local_addr()).exclusive(true).bind();
    /// assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn exclusive(mut self, on: bool) -> Self {
        self.exclusive = on;
        self
    }

    /// Sets a function that prepares each socket before it is bound: buffer sizes, timeouts, socket options. They apply
    /// from the first datagram. The function gets a socket of the crate socket2, and also runs for each member that
    /// joins later.
    pub fn prepare(
        mut self,
        prepare: impl Fn(&Socket) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.group.prepare = Prepare(Box::new(prepare));
        self
    }

    /// Binds the sockets.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no member, for more than 65,535, and for a [`Spread`] that the kernel has no space for;
    /// `AddrInUse`; `Unsupported` for several members or a [`Spread`] on a platform without them; else the system's
    /// error, or that of `prepare`.
    pub fn bind(self) -> io::Result<ReusePortGroup> {
        let Self { mut group, count, exclusive } = self;
        let count = match count {
            Some(count) => count,
            None => thread::available_parallelism()?.get(),
        };
        // The kernel counts members in 16 bits (`struct sock_reuseport`).
        if !(1..=usize::from(u16::MAX)).contains(&count) {
            let reason = format!("a group has 1 to 65535 members, not {count}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        // Binds alone on port 0, too: a socket that shares could get the port of another group of this user.
        let mut alone =
            exclusive || !sys::SPREADS || sys::SHARES_WHEN_BOUND && group.addr.port() == 0;
        let mut first = group.open(!alone);
        // A sandbox may refuse the option, which a single socket does not need.
        if first.is_err() && count == 1 && !alone {
            (first, alone) = (group.open(false), true);
        }
        let first = first?;
        if sys::SHARES_WHEN_BOUND {
            let shared = sys::share(&SockRef::from(&first));
            if count > 1 {
                shared?;
            }
        }
        group.addr = first.local_addr()?;
        group.members.push(first);
        while group.members.len() < count {
            let next = group.open(true)?;
            group.members.push(next);
        }
        // The kernel makes a socket that was bound alone into a group when a second one joins.
        if count > 1 || !alone {
            group.attach_spread()?;
        }
        Ok(group)
    }
}

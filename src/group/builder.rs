//! The builder of a group: its settings, and how its sockets are bound.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::thread;

use socket2::Socket;

use super::{Prepare, ReusePortGroup, Share, Spread, one_member_only};
use crate::sys::numbers;

/// Settings of a [`ReusePortGroup`] to be bound.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use mmsg::{Ancillary, ReusePortGroup};
///
/// let group = ReusePortGroup::builder("127.0.0.1:0".parse().unwrap())
///     .members(2)
///     .prepare(|socket| Ancillary::DEST.enable(socket).map(drop))
///     .bind()?;
/// assert_eq!(group.into_iter().count(), 2);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "`bind` makes a group of it"]
pub struct ReusePortGroupBuilder {
    addr: SocketAddr,
    members: Option<usize>,
    spread: Spread,
    exclusive: bool,
    prepare: Box<Prepare>,
}

impl ReusePortGroupBuilder {
    pub(super) fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            members: None,
            spread: Spread::FLOW,
            exclusive: false,
            prepare: Box::new(|_| Ok(())),
        }
    }

    /// Sets the number of members. By default there is one for each CPU that the process may use. Where the system does not
    /// spread datagrams, [`bind`](Self::bind) fails with `Unsupported` unless it is 1 (see [`ReusePortGroup`], "Platforms").
    pub fn members(mut self, count: usize) -> Self {
        self.members = Some(count);
        self
    }

    /// Sets how datagrams are spread: [`Spread::FLOW`] by default.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg::{ReusePortGroup, Spread};
    /// let addr = "127.0.0.1:0".parse().unwrap();
    /// let group = ReusePortGroup::builder(addr).members(2).spread(Spread::CPU).bind()?;
    /// # let _ = group;
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }

    /// Sets whether binding fails with `AddrInUse` if another socket has the address. By default, the group
    /// shares the address with other groups of the same user. In either case, a group on port 0 gets a port
    /// that no other socket has.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg::ReusePortGroup;
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

    /// Sets a function that prepares each socket before it is bound: buffer sizes, timeouts,
    /// [`Ancillary::enable`](crate::Ancillary::enable). What is set then holds for the first datagram. The function gets
    /// a socket of the crate socket2, and runs again for each member that joins later.
    pub fn prepare(
        mut self,
        prepare: impl Fn(&Socket) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    /// Binds the sockets.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no member, and for a [`Spread`] that the kernel has no space for; `AddrInUse`;
    /// `Unsupported` for what the platform lacks; else the system's error, or that of `prepare`.
    pub fn bind(self) -> io::Result<ReusePortGroup> {
        let Self { addr, members, spread, exclusive, prepare } = self;
        let count = match members {
            Some(count) => count,
            None => thread::available_parallelism()?.get(),
        };
        if count == 0 {
            let reason = "a group needs a member";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        if count > 1 && numbers::REUSE_PORT.is_none() {
            return Err(one_member_only());
        }
        let share = match (exclusive, numbers::REUSE_PORT_WHEN_BOUND) {
            (false, true) if addr.port() != 0 => Share::Early,
            // Port 0, too: otherwise the system may choose a port that this user's groups have.
            (_, true) => Share::Late,
            (false, false) => Share::Early,
            (true, false) if count == 1 => Share::Never,
            (true, false) => {
                let reason = "this system cannot give an address to one group of sockets alone";
                return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
            }
        };
        let members = Vec::with_capacity(count);
        let mut group = ReusePortGroup { members, addr, spread, prepare };
        let first = group.open(share)?;
        group.addr = first.local_addr()?;
        group.members.push(first);
        while group.members.len() < count {
            let next = group.open(Share::Early)?;
            group.members.push(next);
        }
        // The kernel makes a socket that was bound alone into a group when a second one joins.
        if count > 1 || share == Share::Early {
            group.attach_spread()?;
        }
        Ok(group)
    }
}

impl fmt::Debug for ReusePortGroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, members, spread, exclusive, prepare: _ } = self;
        f.debug_struct("ReusePortGroupBuilder")
            .field("addr", addr)
            .field("members", members)
            .field("spread", spread)
            .field("exclusive", exclusive)
            .finish_non_exhaustive()
    }
}

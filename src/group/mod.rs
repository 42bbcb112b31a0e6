//! Several sockets on one address, each with its share of the datagrams.

mod builder;
mod spread;

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};

pub use builder::ReusePortGroupBuilder;
pub use spread::{Field, Spread};

use crate::sys::{self, numbers};

/// UDP sockets on one address (`SO_REUSEPORT`), among which the kernel spreads the datagrams.
///
/// Each datagram goes to one member, chosen by the group's [`Spread`]. Threads that serve a member each
/// share nothing. [`run`](Self::run) gives every member its thread; `into_iter` yields the sockets, for
/// other ways to serve them.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch, ReusePortGroup, Spread};
/// use std::{net::UdpSocket, time::Duration};
///
/// # #[cfg(target_os = "linux")] {
/// let group = ReusePortGroup::builder("127.0.0.1:0".parse().unwrap())
///     .members(2)
///     .spread(Spread::RANDOM)
///     .prepare(|socket| socket.set_read_timeout(Some(Duration::from_millis(50))))
///     .bind()?;
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// for _ in 0..64 {
///     client.send_to(b"hello", group.local_addr())?;
/// }
/// let counts = group.run(|_index, socket| {
///     let mut batch = RecvBatch::new(64, 1500);
///     let mut received = 0;
///     while let Ok(count) = socket.recv_into(&mut batch) {
///         received += count;
///     }
///     received
/// })?;
/// assert_eq!(counts.iter().sum::<usize>(), 64);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Which datagrams are spread
///
/// The kernel spreads unicast datagrams; a multicast or broadcast datagram goes to every member. A message that is
/// coalesced when it reaches the socket, by GRO or by the sender's GSO on the same machine, goes to one
/// member as a whole, by the bytes of its first datagram.
///
/// A member that no thread reads still gets its share, and drops it when its buffer is full.
///
/// # Joining and leaving
///
/// Nothing is lost when a member joins: [`join`](Self::join) adds one, and any process of the same user
/// can bind a group to the same address, unless it asks for an [`exclusive`](ReusePortGroupBuilder::exclusive)
/// one. With [`Spread::FLOW`], some flows move to the new member.
///
/// The kernel drops the datagrams that wait in a socket when it is closed. (It has a setting that hands over the
/// connections of closed sockets, `net.ipv4.tcp_migrate_req`; it is for TCP alone.) So a member leaves in
/// two steps. [`leave`](Self::leave) and [`leave_all`](Self::leave_all) take it out of the kernel's group and
/// return its socket, which gets nothing further. Then receive until `WouldBlock`, and drop it. Nothing is
/// lost:
///
/// ```
/// # use mmsg::{BatchSocket, RecvBatch, ReusePortGroup};
/// # #[cfg(target_os = "linux")] {
/// # let mut group = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
/// # std::net::UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", group.local_addr())?;
/// # let mut received = 0;
/// let mut batch = RecvBatch::new(64, 1500);
/// for socket in group.leave_all()? {
///     while socket.recv_into(&mut batch).is_ok() {
///         // Work on the batch.
///         # received += batch.message_count();
///     }
/// }
/// # assert_eq!(received, 1);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A socket that has left cannot send: it is bound to a network interface that does not exist. Send replies to
/// its datagrams by another socket.
///
/// **A restart** without loss: the new process binds its group while the old one still runs, and the old
/// one calls `leave_all` and receives the rest. To lose no *replies* either, hand the sockets themselves
/// to the new process, over a Unix socket: see [`ControlBuf::push_fds`](crate::control::ControlBuf::push_fds).
///
/// # Indices
///
/// The kernel numbers the sockets of all groups on the address in the order in which they joined, and when one
/// leaves, the last one takes its number. As long as the address has this group alone, a member's index here
/// is the kernel's. After a restart the indices agree again if both groups have as many members and the old one
/// left by `leave_all`. In between, [`Spread::by`] gives the shares of the new members to the old ones.
///
/// # Platforms
///
/// - Linux and Android: all of it. `leave` needs Linux 5.0, and `CAP_NET_RAW` before 5.7.
/// - FreeBSD (`SO_REUSEPORT_LB`) and DragonFly: `Spread::FLOW`, and no `leave` or `exclusive` with
///   several members.
/// - Elsewhere: a group has one member, and with more `bind` fails. macOS, NetBSD and OpenBSD let several sockets bind to an address,
///   but one of them gets all datagrams.
///
/// A call that the platform lacks returns `Unsupported`.
#[doc(alias("SO_REUSEPORT", "SO_REUSEPORT_LB"))]
pub struct ReusePortGroup {
    members: Vec<UdpSocket>,
    addr: SocketAddr,
    spread: Spread,
    prepare: Box<Prepare>,
}

type Prepare = dyn Fn(&Socket) -> io::Result<()> + Send + Sync;

impl ReusePortGroup {
    /// Binds `members` sockets to `addr`, spread by flow. With port 0 the system chooses one port for
    /// all.
    ///
    /// # Errors
    ///
    /// Those of [`ReusePortGroupBuilder::bind`].
    pub fn bind(addr: SocketAddr, members: usize) -> io::Result<Self> {
        Self::builder(addr).members(members).bind()
    }

    /// Chooses how many members there are, how datagrams are spread, and which options the sockets have.
    pub fn builder(addr: SocketAddr) -> ReusePortGroupBuilder {
        ReusePortGroupBuilder::new(addr)
    }

    /// The address of all members.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The sockets, by index.
    #[must_use]
    pub fn members(&self) -> &[UdpSocket] {
        &self.members
    }

    /// Serves each member on a thread of its own: calls `serve` with its index and its socket. Returns the
    /// results by index, when all threads have ended.
    ///
    /// A thread ends when its call of `serve` does: the [guide](crate::guide::cores) says how to stop them.
    ///
    /// With [`Spread::CPU`] each thread runs on the CPUs whose datagrams its member gets, as far as the
    /// process may use them. No thread begins unless all could be started.
    ///
    /// # Errors
    ///
    /// The system's error if a thread cannot be started.
    ///
    /// # Panics
    ///
    /// If a call of `serve` has panicked, after all the others have returned.
    pub fn run<T: Send>(
        &self,
        serve: impl Fn(usize, &UdpSocket) -> T + Sync,
    ) -> io::Result<Vec<T>> {
        let (count, by_cpu) = (self.members.len(), self.spread.is_by_cpu());
        thread::scope(|scope| {
            let serve = &serve;
            let mut threads = Vec::with_capacity(count);
            for (index, socket) in self.members.iter().enumerate() {
                let (start, started) = mpsc::channel::<()>();
                let body = move || {
                    // There is no start if the system has not started all threads.
                    started.recv().ok()?;
                    if by_cpu {
                        sys::keep_to_cpus(|cpu| cpu % count == index);
                    }
                    Some(serve(index, socket))
                };
                let name = format!("member {index}");
                let thread = thread::Builder::new().name(name).spawn_scoped(scope, body)?;
                threads.push((start, thread));
            }
            for (start, _) in &threads {
                let _ = start.send(());
            }
            let join = |(_, thread): (_, thread::ScopedJoinHandle<'_, Option<T>>)| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let results: Option<Vec<T>> = threads.into_iter().map(join).collect();
            Ok(results.expect("every thread was started"))
        })
    }

    /// Adds a member, which gets its share from now on, and returns its index, the last one.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg::ReusePortGroup;
    /// let mut group = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
    /// let index = group.join()?;
    /// assert_eq!(group.members()[index].local_addr()?, group.local_addr());
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`ReusePortGroupBuilder::bind`]; the group is as before.
    pub fn join(&mut self) -> io::Result<usize> {
        if !self.members.is_empty() && numbers::REUSE_PORT.is_none() {
            return Err(one_member_only());
        }
        let member = self.open(Share::Early)?;
        self.members.push(member);
        if let Err(error) = self.attach_spread() {
            self.members.pop();
            return Err(error);
        }
        Ok(self.members.len() - 1)
    }

    /// Takes the member `index` out of the group and returns its socket, which gets no further datagram and
    /// no longer blocks: receive until `WouldBlock`. The last member takes the index, and the others the
    /// share.
    ///
    /// The call takes some milliseconds: it waits until no CPU is about to deliver a datagram to the
    /// socket (`membarrier`). In a sandbox without that call, one may still come right after.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg::{BatchSocket, RecvBatch, ReusePortGroup};
    /// let mut group = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// let gone = group.leave(1)?;
    /// while gone.recv_into(&mut batch).is_ok() {
    ///     println!("{} more", batch.message_count());
    /// }
    /// assert_eq!(group.members().len(), 1);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` or the system's error; the group is as before.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn leave(&mut self, index: usize) -> io::Result<UdpSocket> {
        let socket = &self.members[index];
        sys::leave_port(sys::borrow(socket))?;
        socket.set_nonblocking(true)?;
        let socket = self.members.swap_remove(index);
        sys::wait_for_deliveries();
        // If this fails, the last index has no member, and the kernel spreads that share by flow.
        let _ = self.attach_spread();
        Ok(socket)
    }

    /// Takes all members out of the group, as [`leave`](Self::leave) does, and returns their sockets by index.
    ///
    /// The last one leaves first, so that the members of another group on the address take the numbers in
    /// their own order. The call does not change how that group spreads the datagrams.
    ///
    /// # Errors
    ///
    /// `Unsupported` or the system's error. Members that had left already stay here, and get nothing.
    pub fn leave_all(&mut self) -> io::Result<Vec<UdpSocket>> {
        for socket in self.members.iter().rev() {
            sys::leave_port(sys::borrow(socket))?;
            socket.set_nonblocking(true)?;
        }
        sys::wait_for_deliveries();
        Ok(std::mem::take(&mut self.members))
    }

    /// Makes a socket that is a member.
    fn open(&self, share: Share) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(self.addr), Type::DGRAM, Some(Protocol::UDP))?;
        (self.prepare)(&socket)?;
        let share_if = |now| match numbers::REUSE_PORT {
            option @ Some(_) if now => sys::set_option(sys::borrow(&socket), option, 1),
            _ => Ok(()),
        };
        share_if(share == Share::Early)?;
        socket.bind(&self.addr.into())?;
        share_if(share == Share::Late)?;
        Ok(socket.into())
    }

    /// Makes the kernel spread the datagrams over the present number of members.
    fn attach_spread(&self) -> io::Result<()> {
        let Some(member) = self.members.first() else { return Ok(()) };
        match self.spread.program(self.members.len())? {
            Some(program) => sys::spread_by(sys::borrow(member), &program),
            None => Ok(()),
        }
    }
}

/// When a socket begins to share its address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// Before it is bound, so that it may join others.
    Early,
    /// When it is bound: it is the first on the address.
    Late,
    Never,
}

impl fmt::Debug for ReusePortGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { members, addr, spread, prepare: _ } = self;
        f.debug_struct("ReusePortGroup")
            .field("addr", addr)
            .field("spread", spread)
            .field("members", members)
            .finish_non_exhaustive()
    }
}

/// The sockets by index, for tasks or threads of your own. They stay members until they are dropped.
impl IntoIterator for ReusePortGroup {
    type Item = UdpSocket;
    type IntoIter = std::vec::IntoIter<UdpSocket>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

fn one_member_only() -> io::Error {
    let reason = "this system does not spread datagrams over the sockets on an address";
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

//! Several sockets on one address, each with its share of the datagrams.

use std::fmt;
use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::panic;
use std::sync::Mutex;
use std::thread;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::spread::Spread;
use crate::sys;

/// UDP sockets on one address (`SO_REUSEPORT`), among which the kernel spreads the datagrams.
///
/// Each datagram goes to one member, chosen by the group's [`Spread`]. Threads that serve one member each share
/// nothing. [`run`](Self::run) gives every member its thread; `into_iter` yields the sockets, to serve them in other
/// ways.
///
/// ```
/// use mmsg_reuseport::{ReusePortGroup, Spread};
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
///     let mut buffer = [0; 1500];
///     std::iter::from_fn(|| socket.recv_from(&mut buffer).ok()).count()
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
/// # Indices
///
/// The kernel numbers the sockets of all groups on the address in the order in which they joined, and when one leaves,
/// the last one takes its number. While no other group has the address, a member's index here is the kernel's. After a
/// restart the indices agree again if both groups have the same number of members and the old one left with
/// `leave_all` or was dropped. Of sockets that `into_iter` handed out, close the last one first: a `Vec` drops its first
/// one first. In between, the old members get the datagrams that [`Spread::by`] means for the new ones.
///
/// # Platforms
///
/// - Linux and Android: all of it. `leave` needs Linux 5.0, and `CAP_NET_RAW` before 5.7.
/// - FreeBSD (`SO_REUSEPORT_LB`): `Spread::FLOW` and no `leave`. An `exclusive` group has one member; with more,
///   `bind` fails with `AddrInUse`.
/// - Elsewhere: a group has one member, and with more `bind` fails. macOS, NetBSD and OpenBSD let several sockets bind
///   to an address, but deliver all datagrams to one of them.
///
/// A call that the platform lacks returns `Unsupported`.
#[doc(alias("SO_REUSEPORT", "SO_REUSEPORT_LB"))]
#[derive(Debug)]
pub struct ReusePortGroup {
    pub(crate) members: Vec<UdpSocket>,
    pub(crate) addr: SocketAddr,
    pub(crate) spread: Spread,
    pub(crate) prepare: Prepare,
}

pub(crate) struct Prepare(pub(crate) Box<PrepareFn>);

type PrepareFn = dyn Fn(&Socket) -> io::Result<()> + Send + Sync;

impl fmt::Debug for Prepare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepare")
    }
}

impl ReusePortGroup {
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
    /// A thread ends when its call of `serve` does: see [how to stop them](crate#stopping).
    ///
    /// With [`Spread::CPU`] each thread runs on the CPUs whose datagrams its member gets, as far as the process may use
    /// them. If a thread cannot be started, `serve` is not called at all.
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
        let all_started = Mutex::new(false);
        thread::scope(|scope| {
            // The threads wait for this lock. A spawn that fails releases it, and they end.
            let mut gate = all_started.lock().expect("no thread has it yet");
            let mut threads = Vec::new();
            for (index, socket) in self.members.iter().enumerate() {
                let (all_started, serve) = (&all_started, &serve);
                let body = move || {
                    if !all_started.lock().is_ok_and(|started| *started) {
                        return None;
                    }
                    if self.spread == Spread::CPU {
                        sys::set_affinity(|cpu| cpu % self.members.len() == index);
                    }
                    Some(serve(index, socket))
                };
                let thread = thread::Builder::new().name(format!("member {index}"));
                threads.push(thread.spawn_scoped(scope, body)?);
            }
            *gate = true;
            drop(gate);
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
            };
            Ok(threads.into_iter().filter_map(join).collect())
        })
    }

    /// Adds a member, which gets its share from now on, and returns its index, the last one.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg_reuseport::ReusePortGroup;
    /// let mut group = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
    /// let index = group.join()?;
    /// assert_eq!(group.members()[index].local_addr()?, group.local_addr());
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`ReusePortGroupBuilder::bind`](crate::ReusePortGroupBuilder::bind); the group is unchanged.
    pub fn join(&mut self) -> io::Result<usize> {
        let member = self.open(true)?;
        self.members.push(member);
        if let Err(error) = self.attach_spread() {
            self.members.pop();
            return Err(error);
        }
        Ok(self.members.len() - 1)
    }

    /// Takes the member `index` out of the group and returns its socket. The socket gets no more datagrams and is
    /// non-blocking: receive until `WouldBlock`. The last member takes over the index, and all others the share.
    ///
    /// The call takes some milliseconds: it waits until no CPU is about to deliver a datagram to the socket
    /// (`membarrier`). In a sandbox without that call, a datagram may still come right afterwards.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use mmsg_reuseport::ReusePortGroup;
    /// let mut group = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
    /// let mut buffer = [0; 1500];
    /// let gone = group.leave(1)?;
    /// while let Ok((len, from)) = gone.recv_from(&mut buffer) {
    ///     println!("{len} more bytes from {from}");
    /// }
    /// assert_eq!(group.members().len(), 1);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` or the system's error; the group is unchanged.
    ///
    /// # Panics
    ///
    /// If there is no such member.
    pub fn leave(&mut self, index: usize) -> io::Result<UdpSocket> {
        sys::detach(&SockRef::from(&self.members[index]))?;
        let socket = self.members.swap_remove(index);
        sys::wait_for_deliveries();
        // By flow, the program is the same for any number. If this fails, the last index has no member, and the kernel
        // spreads that share by flow.
        if self.spread != Spread::FLOW {
            let _ = self.attach_spread();
        }
        Ok(socket)
    }

    /// Takes all members out of the group, as [`leave`](Self::leave) does, and returns their sockets by index.
    ///
    /// The last one leaves first, so that the members of another group on the address take over the numbers in order.
    /// The call does not change how that group spreads the datagrams.
    ///
    /// ```
    /// # use mmsg_reuseport::ReusePortGroup;
    /// # #[cfg(target_os = "linux")] {
    /// # let mut group = ReusePortGroup::bind("127.0.0.1:0".parse().unwrap(), 2)?;
    /// # std::net::UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", group.local_addr())?;
    /// # let mut received = 0;
    /// let mut buffer = [0; 1500];
    /// for socket in group.leave_all()? {
    ///     while let Ok((len, from)) = socket.recv_from(&mut buffer) {
    ///         println!("{len} bytes from {from}");
    ///         # received += 1;
    ///     }
    /// }
    /// # assert_eq!(received, 1);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` or the system's error. Members that have already left stay in this group, and get nothing.
    pub fn leave_all(&mut self) -> io::Result<Vec<UdpSocket>> {
        for socket in self.members.iter().rev() {
            sys::detach(&SockRef::from(socket))?;
        }
        sys::wait_for_deliveries();
        Ok(mem::take(&mut self.members))
    }

    /// Binds a member, which shares the address from the start if `shared`.
    pub(crate) fn open(&self, shared: bool) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(self.addr), Type::DGRAM, Some(Protocol::UDP))?;
        (self.prepare.0)(&socket)?;
        if shared {
            sys::share(&socket)?;
        }
        socket.bind(&self.addr.into())?;
        Ok(socket.into())
    }

    /// Makes the kernel spread the datagrams over the current members.
    pub(crate) fn attach_spread(&self) -> io::Result<()> {
        let Some(member) = self.members.first() else { return Ok(()) };
        // By flow, too: an earlier group on the address may have left its program.
        let program = self.spread.program(self.members.len())?;
        let Err(error) = sys::attach_cbpf(&SockRef::from(member), &program) else { return Ok(()) };
        let is_right_without = match error.kind() {
            // The kernel makes a socket that was bound alone into a group when a second one joins.
            io::ErrorKind::InvalidInput => self.members.len() == 1,
            _ => self.spread == Spread::FLOW && error.raw_os_error() == sys::NO_PROGRAMS,
        };
        if is_right_without { Ok(()) } else { Err(error) }
    }
}

/// Closes the sockets, the last one first, so that the members of another group on the address take over the indices in
/// order.
impl Drop for ReusePortGroup {
    fn drop(&mut self) {
        while self.members.pop().is_some() {}
    }
}

/// Yields the sockets by index, for your own tasks or threads. They stay members until they are dropped.
impl IntoIterator for ReusePortGroup {
    type Item = UdpSocket;
    type IntoIter = std::vec::IntoIter<UdpSocket>;

    fn into_iter(mut self) -> Self::IntoIter {
        mem::take(&mut self.members).into_iter()
    }
}

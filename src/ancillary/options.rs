//! The metadata that a socket can report, and the socket options that enable it.

use std::fmt;
use std::io;
use std::ops::{BitOr, BitOrAssign, Sub};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::numbers::{self, OptionName};
use crate::sys::{self, AsSocket, BorrowedSocket};

/// A set of metadata that the kernel can report for each message.
///
/// [`require`](Self::require) sets the socket options, for IPv4, IPv6 and dual-stack sockets alike, or
/// fails; [`enable`](Self::enable) returns the subset that is on. [`RecvMeta`](crate::RecvMeta) then holds the metadata; every receive
/// has space for all of it.
///
/// For multicast groups, buffer sizes, address reuse and the like use
/// [socket2](https://docs.rs/socket2): its `SockRef::from(&socket)` works on every socket that this
/// crate works on.
///
/// ```
/// use mmsg::Ancillary;
/// let socket = std::net::UdpSocket::bind("[::]:0")?;
/// # if cfg!(target_os = "linux") {
/// Ancillary::DEST.require(&socket)?; // An error on a platform without it.
/// # }
/// let taken = (Ancillary::DEST | Ancillary::TOS).enable(&socket)?;
/// if !taken.contains(Ancillary::TOS) {
///     eprintln!("no congestion information on this platform");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use = "a member that is missing is no error: use `require`, or look at the members that are on"]
pub struct Ancillary(u16);

impl Ancillary {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Destination address, own address and interface of each message (`IP_PKTINFO`, `IPV6_RECVPKTINFO`,
    /// `IP_RECVDSTADDR`).
    #[doc(alias("IP_PKTINFO", "IPV6_RECVPKTINFO", "IP_RECVDSTADDR", "pktinfo"))]
    pub const DEST: Self = Self(1);
    /// TOS byte or traffic class, ECN bits included (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    #[doc(alias("IP_RECVTOS", "IPV6_RECVTCLASS", "ECN", "DSCP"))]
    pub const TOS: Self = Self(1 << 1);
    /// Remaining time to live or hop limit (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    #[doc(alias("IP_RECVTTL", "IPV6_RECVHOPLIMIT", "TTL"))]
    pub const HOP_LIMIT: Self = Self(1 << 2);
    /// When the kernel received the message (`SO_TIMESTAMPNS`; `SO_TIMESTAMP` on macOS and the
    /// BSDs, on FreeBSD with `SO_TS_CLOCK`).
    #[doc(alias("SO_TIMESTAMPNS", "SO_TIMESTAMP", "SO_TS_CLOCK"))]
    pub const TIMESTAMP: Self = Self(1 << 3);
    /// When the network device received it (`SO_TIMESTAMPING`). Linux accepts the option on every
    /// socket; whether there are timestamps depends on the device and its driver's settings.
    #[doc(alias = "SO_TIMESTAMPING")]
    pub const HARDWARE_TIMESTAMP: Self = Self(1 << 4);
    /// Coalesced messages (`UDP_GRO`). Needs a buffer of 65,535 bytes for each message: a shorter one
    /// truncates coalesced messages. Turning it off joins what is queued, since the kernel no longer
    /// reports where the datagrams of a coalesced message end: drain the socket first.
    #[doc(alias = "UDP_GRO")]
    pub const GRO: Self = Self(1 << 5);
    /// The count of dropped messages (`SO_RXQ_OVFL`).
    #[doc(alias = "SO_RXQ_OVFL")]
    pub const DROPPED: Self = Self(1 << 6);
    /// The destination before a transparent proxy's redirection (`IP_RECVORIGDSTADDR`,
    /// `IPV6_RECVORIGDSTADDR`).
    #[doc(alias("IP_RECVORIGDSTADDR", "IPV6_RECVORIGDSTADDR", "TPROXY"))]
    pub const ORIGINAL_DEST: Self = Self(1 << 7);
    /// New path MTUs (`IPV6_RECVPATHMTU`), on IPv6 sockets. For IPv4 they are in the error queue:
    /// [`ERRORS`](Self::ERRORS).
    #[doc(alias = "IPV6_RECVPATHMTU")]
    pub const PATH_MTU: Self = Self(1 << 8);
    /// The packet filter's mark (`SO_RCVMARK`).
    #[doc(alias("SO_RCVMARK", "SO_MARK"))]
    pub const MARK: Self = Self(1 << 9);
    /// Queues ICMP errors in the socket's error queue (`IP_RECVERR`, `IPV6_RECVERR`). Drain the queue
    /// with [`drain_errors`](crate::error_queue::drain_errors): until it is empty, `poll` and epoll report an error
    /// on the socket.
    #[doc(alias("IP_RECVERR", "IPV6_RECVERR", "MSG_ERRQUEUE"))]
    pub const ERRORS: Self = Self(1 << 10);
    /// Queues the time at which each datagram was sent in the error queue (`SO_TIMESTAMPING` with
    /// `SOF_TIMESTAMPING_OPT_ID`, numbered from 0 as of now), which must be drained as well. While it
    /// is on, an [`Offload`](crate::Offload) sends without GSO, so that each datagram has a time.
    #[doc(alias = "SO_TIMESTAMPING")]
    pub const SEND_TIMESTAMP: Self = Self(1 << 11);

    const NAMES: [(Self, &'static str); 12] = [
        (Self::DEST, "DEST"),
        (Self::TOS, "TOS"),
        (Self::HOP_LIMIT, "HOP_LIMIT"),
        (Self::TIMESTAMP, "TIMESTAMP"),
        (Self::HARDWARE_TIMESTAMP, "HARDWARE_TIMESTAMP"),
        (Self::GRO, "GRO"),
        (Self::DROPPED, "DROPPED"),
        (Self::ORIGINAL_DEST, "ORIGINAL_DEST"),
        (Self::PATH_MTU, "PATH_MTU"),
        (Self::MARK, "MARK"),
        (Self::ERRORS, "ERRORS"),
        (Self::SEND_TIMESTAMP, "SEND_TIMESTAMP"),
    ];

    /// Whether all of `other` is in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Turns the set on for `socket`, and returns the members that are on. A member is on if all its
    /// socket options are, for each family that the socket carries.
    ///
    /// A member that the platform, the process's permissions or the type of socket do not allow is
    /// left as it was; that is no error.
    ///
    /// Datagrams that were queued before come with a part of the metadata only: on Linux, an IPv4 one to a
    /// broadcast or multicast address then has a destination and no [`local`](crate::RecvMeta::local)
    /// address to reply from. Enable before `bind` (with socket2) where that matters.
    ///
    /// ```
    /// use mmsg::Ancillary;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let on = (Ancillary::TOS | Ancillary::MARK).enable(&socket)?;
    /// if !on.contains(Ancillary::MARK) {
    ///     eprintln!("no marks before Linux 5.19");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An error about the socket itself, such as `EBADF`.
    #[doc(alias = "setsockopt")]
    pub fn enable(self, socket: &impl AsSocket) -> io::Result<Self> {
        self.apply(socket, |option, now| if option.bits { now | option.on } else { option.on })
    }

    /// Turns the set on for `socket`, all of it.
    ///
    /// ```
    /// use mmsg::Ancillary;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// // New path MTUs are reported on IPv6 sockets only.
    /// let error = Ancillary::PATH_MTU.require(&socket).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    /// assert!(error.to_string().contains("PATH_MTU"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` that names the members that are missing; the others are on then. An error about the
    /// socket itself, such as `EBADF`.
    #[doc(alias = "setsockopt")]
    pub fn require(self, socket: &impl AsSocket) -> io::Result<()> {
        let missing = self - self.enable(socket)?;
        if missing.is_empty() {
            return Ok(());
        }
        let reason = format!("not available on this platform or this socket: {missing:?}");
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    /// Turns the set off for `socket`, and returns the members that the socket supports and that are
    /// off now.
    ///
    /// ```
    /// use mmsg::Ancillary;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// Ancillary::TOS.require(&socket)?;
    /// let off = Ancillary::TOS.disable(&socket)?;
    /// assert!(off.contains(Ancillary::TOS));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn disable(self, socket: &impl AsSocket) -> io::Result<Self> {
        self.apply(socket, |option, now| {
            if !option.bits {
                return 0;
            }
            // Bits that another member still needs stay set, and so do bits set by others.
            OPTIONS
                .iter()
                .filter(|other| other.name == option.name && !self.contains(other.asks))
                .filter(|other| now & other.on == other.on)
                .fold(now & !option.on, |bits, other| bits | other.on)
        })
    }

    fn apply(
        self,
        socket: &impl AsSocket,
        value: impl Fn(&SocketOption, i32) -> i32,
    ) -> io::Result<Self> {
        let socket = sys::borrow(socket);
        let families = sys::families(socket)?;
        let has_error_queue = sys::has_error_queue(socket)?;
        let applies = |option: &&SocketOption| match option.family {
            Family::V4 => families.v4,
            Family::V6 => families.v6,
            Family::ErrorQueue => has_error_queue,
            Family::Any => true,
        };
        let mut taken = Self::NONE;
        for (asked, _) in Self::NAMES.into_iter().filter(|(asked, _)| self.contains(*asked)) {
            let of_it =
                OPTIONS.iter().filter(|option| option.asks == asked && option.name.is_some());
            let mut options = of_it.filter(applies).peekable();
            if options.peek().is_some() && set_all(socket, &mut options, &value)? {
                taken |= asked;
            }
        }
        Ok(taken)
    }
}

/// Which sockets an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
    /// Sockets with an error queue.
    ErrorQueue,
    Any,
}

/// A socket option and the member of the set that it belongs to.
#[derive(Clone, Copy, Debug)]
struct SocketOption {
    asks: Ancillary,
    family: Family,
    /// `None` where the platform has no such option.
    name: Option<OptionName>,
    /// The option that reports a part of it, where the system does not have the other.
    instead: Option<OptionName>,
    /// Its value, or the bits of it, when it is on.
    on: i32,
    /// Whether the value is a set of bits. Some systems read back another number than was set.
    bits: bool,
}

/// The options of every platform.
const OPTIONS: &[SocketOption] = &[
    switch(Ancillary::DEST, Family::V4, numbers::RECV_PKTINFO_V4),
    switch(Ancillary::DEST, Family::V4, numbers::RECV_DSTADDR_V4),
    switch(Ancillary::DEST, Family::V6, numbers::RECV_PKTINFO_V6),
    SocketOption {
        instead: numbers::RECV_ECN_V4,
        ..switch(Ancillary::TOS, Family::V4, numbers::RECV_TOS)
    },
    SocketOption {
        instead: numbers::RECV_ECN_V6,
        ..switch(Ancillary::TOS, Family::V6, numbers::RECV_TCLASS)
    },
    switch(Ancillary::HOP_LIMIT, Family::V4, numbers::RECV_TTL),
    switch(Ancillary::HOP_LIMIT, Family::V6, numbers::RECV_HOP_LIMIT),
    SocketOption {
        on: numbers::NANOSECONDS,
        ..switch(Ancillary::TIMESTAMP, Family::Any, numbers::TIMESTAMP_CLOCK)
    },
    switch(Ancillary::TIMESTAMP, Family::Any, numbers::RECV_TIMESTAMP),
    SocketOption {
        on: numbers::HARDWARE_STAMPS,
        bits: true,
        ..switch(Ancillary::HARDWARE_TIMESTAMP, Family::Any, numbers::RECV_TIMESTAMPING)
    },
    SocketOption {
        on: numbers::SEND_STAMPS,
        bits: true,
        ..switch(Ancillary::SEND_TIMESTAMP, Family::ErrorQueue, numbers::RECV_TIMESTAMPING)
    },
    SocketOption {
        on: numbers::RECV_GRO_ON,
        ..switch(Ancillary::GRO, Family::Any, numbers::RECV_GRO)
    },
    switch(Ancillary::DROPPED, Family::Any, numbers::RECV_DROPPED),
    switch(Ancillary::ORIGINAL_DEST, Family::V4, numbers::RECV_ORIGINAL_DEST_V4),
    switch(Ancillary::ORIGINAL_DEST, Family::V6, numbers::RECV_ORIGINAL_DEST_V6),
    switch(Ancillary::PATH_MTU, Family::V6, numbers::RECV_PATH_MTU),
    switch(Ancillary::MARK, Family::Any, numbers::RECV_MARK),
    switch(Ancillary::ERRORS, Family::V4, numbers::RECV_ERROR_V4),
    switch(Ancillary::ERRORS, Family::V6, numbers::RECV_ERROR_V6),
];

const fn switch(asks: Ancillary, family: Family, name: Option<OptionName>) -> SocketOption {
    SocketOption { asks, family, name, instead: None, on: 1, bits: false }
}

impl SocketOption {
    /// Whether the option is on if it has this value.
    const fn is_on(&self, value: i32) -> bool {
        if self.bits { value & self.on == self.on } else { value != 0 }
    }
}

/// Sets each option to `value(option, current)`. If the system rejects one, restores the options
/// before it and returns false.
fn set_all(
    socket: BorrowedSocket<'_>,
    options: &mut dyn Iterator<Item = &SocketOption>,
    value: &dyn Fn(&SocketOption, i32) -> i32,
) -> io::Result<bool> {
    let Some(option) = options.next() else { return Ok(true) };
    let mut taken = set(socket, option, option.name, value)?;
    if taken.is_none() && option.instead.is_some() {
        taken = set(socket, option, option.instead, value)?;
    }
    let Some((name, before)) = taken else { return Ok(false) };
    let all = set_all(socket, options, value)?;
    if !all {
        // Best effort: the value was valid before.
        let _ = sys::set_option(socket, name, before);
    }
    if all && option.asks == Ancillary::SEND_TIMESTAMP {
        note_send_times();
    }
    Ok(all)
}

/// Sets an option by this name. Returns the name and the value before; `None` if the system does not
/// have the option, or does not take the value.
fn set(
    socket: BorrowedSocket<'_>,
    option: &SocketOption,
    name: Option<OptionName>,
    value: &dyn Fn(&SocketOption, i32) -> i32,
) -> io::Result<Option<(Option<OptionName>, i32)>> {
    // An option that cannot be read back (UDP_GRO before Linux 5.12) is a boolean.
    let before = sys::option(socket, name).unwrap_or(0);
    let wanted = value(option, before);
    match sys::set_option(socket, name, wanted) {
        Ok(()) => {}
        Err(error) if sys::is_about_the_option(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let is_set =
        sys::option(socket, name).map_or(true, |now| option.is_on(now) == option.is_on(wanted));
    if !is_set {
        let _ = sys::set_option(socket, name, before);
    }
    Ok(is_set.then_some((name, before)))
}

/// Whether any socket of this process may report send times. If none does, sends with GSO need no
/// system call to ask their socket.
static SEND_TIMES: AtomicBool = AtomicBool::new(false);

fn note_send_times() {
    SEND_TIMES.store(true, Ordering::Relaxed);
}

/// Notes whether the socket reports send times, since the option may have been set elsewhere.
pub(crate) fn look_for_send_times(socket: BorrowedSocket<'_>) {
    if sys::reports_send_times(socket) {
        note_send_times();
    }
}

/// Whether the socket reports send times.
#[inline]
pub(crate) fn reports_send_times(socket: BorrowedSocket<'_>) -> bool {
    SEND_TIMES.load(Ordering::Relaxed) && sys::reports_send_times(socket)
}

impl BitOr for Ancillary {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Ancillary {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Sub for Ancillary {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Ancillary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for (_, name) in Self::NAMES.iter().filter(|(asked, _)| self.contains(*asked)) {
            set.entry(&format_args!("{name}"));
        }
        set.finish()
    }
}

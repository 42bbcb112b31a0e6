//! The socket options that enable each member of the set, on every platform.

use std::io;

use super::set::Ancillary;
use crate::sys::numbers::{self, OptionName};
use crate::sys::{self, AsSocket, BorrowedSocket};

impl Ancillary {
    /// Turns the set on for `socket`, and returns the members that are on. A member is on if all its socket options are
    /// on, for each family that the socket carries.
    ///
    /// On an IPv6 socket that also carries IPv4, macOS reports the hop limit of IPv6 datagrams alone, and NetBSD nothing of
    /// IPv4 datagrams: `HOP_LIMIT` there, and on NetBSD `DEST` and `TOS`, are off on such a socket.
    ///
    /// A member that the platform, the process's permissions or the type of socket do not allow is
    /// left unchanged; that is no error. An option that the system accepts but does not read back, as gVisor does, is not
    /// on.
    ///
    /// Datagrams already in the queue have only part of the metadata: on Linux, an IPv4 datagram to a broadcast or
    /// multicast address then has a destination and no [`local`](crate::RecvMeta::local) address to reply from. On macOS and
    /// the BSDs they have none at all, since the kernel writes it when it queues a datagram: a reply to one leaves from the
    /// address that the system chooses. If that matters, enable before `bind` (with socket2).
    ///
    /// ```
    /// use mmsg::Ancillary;
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let on = (Ancillary::TOS | Ancillary::GRO).enable(&socket)?;
    /// if !on.contains(Ancillary::GRO) {
    ///     eprintln!("no coalesced messages before Linux 5.0");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An error about the socket itself, such as `EBADF`.
    #[doc(alias = "setsockopt")]
    pub fn enable(self, socket: &(impl AsSocket + ?Sized)) -> io::Result<Self> {
        let socket = sys::borrow(socket);
        let families = sys::families(socket)?;
        let has_error_queue = sys::has_error_queue(socket)?;
        let reported_by_v6 = sys::v4_rules().reported_by_v6.filter(|_| families.v6);
        let is_whole = |option: &SocketOption| {
            let reports_v4 = reported_by_v6.is_none_or(|names| names.contains(&option.name));
            option.family != Family::V6 || !families.v4 || reports_v4
        };
        let applies = |option: &&SocketOption| match option.family {
            Family::V4 => families.v4 && reported_by_v6.is_none(),
            Family::V6 => families.v6,
            Family::Internet => families.v4 || families.v6,
            Family::ErrorQueue => has_error_queue,
            Family::Any => true,
        };
        let mut taken = Self::NONE;
        for &(member, _) in Self::MEMBERS.iter().filter(|(member, _)| self.contains(*member)) {
            let of_it =
                OPTIONS.iter().filter(|option| option.member == member && option.name.is_some());
            let mut options = of_it.filter(applies).peekable();
            let can_be = options.peek().is_some() && options.clone().all(is_whole);
            if can_be && turn_on(socket, &mut options)? {
                taken = taken | member;
            }
        }
        Ok(taken)
    }

    /// Turns the whole set on for `socket`.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::Ancillary;
    /// let socket = std::os::unix::net::UnixDatagram::unbound()?;
    /// let error = Ancillary::TOS.require(&socket).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    /// assert!(error.to_string().contains("TOS"));
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported`, which names the missing members; the others are on. An error about the socket itself,
    /// such as `EBADF`.
    #[doc(alias = "setsockopt")]
    pub fn require(self, socket: &(impl AsSocket + ?Sized)) -> io::Result<()> {
        let missing = self.without(self.enable(socket)?);
        if missing == Self::NONE {
            return Ok(());
        }
        let reason = format!("not available on this platform or this socket: {missing:?}");
        Err(io::Error::new(io::ErrorKind::Unsupported, reason))
    }
}

/// The sockets that an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
    /// Both. A Unix socket accepts the option and reports nothing.
    Internet,
    /// Sockets with an error queue.
    ErrorQueue,
    Any,
}

/// A socket option and the member of the set that it belongs to.
#[derive(Clone, Copy, Debug)]
struct SocketOption {
    member: Ancillary,
    family: Family,
    /// `None` where the platform has no such option.
    name: Option<OptionName>,
    /// An option that reports part of the metadata, for systems without `name`.
    fallback: Option<OptionName>,
    /// The option's value, or the bits of its value, when it is on.
    on: i32,
    /// Whether the value is a set of bits. If not, any value but 0 means on: some systems read back another value than
    /// was set.
    bits: bool,
}

const OPTIONS: &[SocketOption] = &[
    boolean(Ancillary::DEST, Family::V4, numbers::RECV_PKTINFO_V4),
    boolean(Ancillary::DEST, Family::V4, numbers::RECV_DSTADDR_V4),
    boolean(Ancillary::DEST, Family::V6, numbers::RECV_PKTINFO_V6),
    SocketOption {
        fallback: numbers::RECV_ECN_V4,
        ..boolean(Ancillary::TOS, Family::V4, numbers::RECV_TOS)
    },
    SocketOption {
        fallback: numbers::RECV_ECN_V6,
        ..boolean(Ancillary::TOS, Family::V6, numbers::RECV_TCLASS)
    },
    boolean(Ancillary::HOP_LIMIT, Family::V4, numbers::RECV_TTL),
    boolean(Ancillary::HOP_LIMIT, Family::V6, numbers::RECV_HOP_LIMIT),
    SocketOption {
        on: numbers::NANOSECONDS,
        ..boolean(Ancillary::TIMESTAMP, Family::Any, numbers::TIMESTAMP_CLOCK)
    },
    boolean(Ancillary::TIMESTAMP, Family::Any, numbers::RECV_TIMESTAMP),
    SocketOption {
        on: numbers::HARDWARE_STAMPS,
        bits: true,
        ..boolean(Ancillary::HARDWARE_TIMESTAMP, Family::Internet, numbers::TIMESTAMPING)
    },
    SocketOption {
        on: numbers::SEND_STAMPS,
        bits: true,
        ..boolean(Ancillary::SEND_TIMESTAMP, Family::ErrorQueue, numbers::TIMESTAMPING)
    },
    boolean(Ancillary::GRO, Family::Any, numbers::GRO),
    boolean(Ancillary::DROPPED, Family::Internet, numbers::DROPPED),
    boolean(Ancillary::ORIGINAL_DEST, Family::V4, numbers::ORIGINAL_DEST_V4),
    boolean(Ancillary::ORIGINAL_DEST, Family::V6, numbers::ORIGINAL_DEST_V6),
    boolean(Ancillary::ERRORS, Family::V4, numbers::ERROR_V4),
    boolean(Ancillary::ERRORS, Family::V6, numbers::ERROR_V6),
];

const fn boolean(member: Ancillary, family: Family, name: Option<OptionName>) -> SocketOption {
    SocketOption { member, family, name, fallback: None, on: 1, bits: false }
}

impl SocketOption {
    /// Whether the option is on if it has this value.
    const fn is_on(&self, value: i32) -> bool {
        if self.bits { value & self.on == self.on } else { value != 0 }
    }
}

/// Turns each option on. If the system rejects one, restores the options before it and returns false.
fn turn_on(
    socket: BorrowedSocket<'_>,
    options: &mut dyn Iterator<Item = &SocketOption>,
) -> io::Result<bool> {
    let Some(option) = options.next() else { return Ok(true) };
    let mut taken = set(socket, option, option.name)?;
    if taken.is_none() && option.fallback.is_some() {
        taken = set(socket, option, option.fallback)?;
    }
    let Some((name, before)) = taken else { return Ok(false) };
    let all = turn_on(socket, options)?;
    if !all {
        // Best effort: the value was valid before.
        let _ = sys::set_option(socket, name, before);
    }
    Ok(all)
}

/// Turns an option on by this name. Returns the name and the value before; `None` if the system does not have the option,
/// or does not take the value.
fn set(
    socket: BorrowedSocket<'_>,
    option: &SocketOption,
    name: Option<OptionName>,
) -> io::Result<Option<(Option<OptionName>, i32)>> {
    let before = sys::option(socket, name).unwrap_or(0);
    // Bits set by another member or by other code stay set.
    let wanted = if option.bits { before | option.on } else { option.on };
    match sys::set_option(socket, name, wanted) {
        Ok(()) => {}
        Err(error) if sys::is_about_the_option(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    // gVisor accepts options that it does not have: these cannot be read. Nor can UDP_GRO before Linux 5.12, which has
    // UDP_SEGMENT.
    let is_readable = |name| sys::option(socket, name).is_ok();
    let is_unread_gro = || name == numbers::GRO && is_readable(numbers::SEGMENT);
    let is_on = sys::option(socket, name).map_or_else(|_| is_unread_gro(), |now| option.is_on(now));
    Ok(is_on.then_some((name, before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new member needs a name and options.
    #[test]
    fn each_member_has_a_name_and_options() {
        let named =
            Ancillary::MEMBERS.iter().fold(Ancillary::NONE, |all, (member, _)| all | *member);
        for member in OPTIONS.iter().map(|option| option.member) {
            assert!(named.contains(member), "a member without a name has options: {named:?}");
        }
        for (member, name) in Ancillary::MEMBERS {
            let mut options = OPTIONS.iter().filter(|option| option.member == member);
            let is_there = options.any(|option| option.name.is_some() || !cfg!(linux_like));
            assert!(is_there, "{name} has no option, or no number on Linux");
        }
    }

    /// If one family's option is rejected, the other's is restored: half of the metadata would mislead.
    #[cfg(linux_like)]
    #[test]
    fn an_option_before_a_rejected_one_is_as_before() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let option = |name| boolean(Ancillary::TOS, Family::V4, name);
        let options = [option(numbers::RECV_TOS), option(Some((0, 9_999)))];
        let set = turn_on(sys::borrow(&socket), &mut options.iter());
        assert!(!set.expect("no option has the number"));
        assert_eq!(sys::option(sys::borrow(&socket), numbers::RECV_TOS).ok(), Some(0));
    }
}

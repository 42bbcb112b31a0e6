//! Reports of the error queue, decoded from control messages.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::ancillary::{system_time, timestamping};
use crate::sys::{self, ControlMessages, numbers};

/// A report about a datagram that was sent earlier.
///
/// ```
/// use mmsg::error_queue::{Event, Report};
///
/// /// The longest packet that the path to this destination carries.
/// fn max_packet(report: &Report) -> Option<u32> {
///     match report.event {
///         Event::TooBig { mtu } if mtu > 0 => Some(mtu),
///         _ => None,
///     }
/// }
/// assert_eq!(max_packet(&Report::EMPTY), None);
/// ```
#[doc(alias("sock_extended_err", "MSG_ERRQUEUE", "IP_RECVERR", "IPV6_RECVERR"))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What happened.
    pub event: Event,
    /// The datagram's destination. On an IPv6 socket, an IPv4 destination is IPv4-mapped: compare
    /// [`to_canonical`](std::net::IpAddr::to_canonical). `None` for send timestamps, or if the system did not report
    /// it. Linux reports port 0 if this host itself found an IPv4 datagram of an unconnected socket too big.
    pub dest: Option<SocketAddr>,
    /// The reporting host: a router, or the destination, with the scope of a link-local IPv6 address. Its
    /// port is 0. `None` if this host rejected the datagram before sending it.
    pub offender: Option<SocketAddr>,
    /// The error number that a send would have returned; 0 for a send timestamp.
    pub errno: i32,
}

/// What happened to a datagram.
///
/// ```
/// use mmsg::error_queue::Event;
///
/// fn gives_up_on_peer(event: Event) -> bool {
///     matches!(event, Event::Refused)
/// }
/// assert!(!gives_up_on_peer(Event::TooBig { mtu: 1280 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Nobody listens on that port (ICMP port unreachable, RFC 792 and RFC 4443).
    Refused,
    /// The destination is unreachable: no route, host down, prohibited (the other ICMP unreachables).
    Unreachable,
    /// The datagram is too big for a link on the path or for this host's own, whose MTU is `mtu` bytes,
    /// IP header included (ICMP fragmentation needed, RFC 1191; ICMPv6 packet too big, RFC 8201).
    TooBig {
        /// The link's MTU; 0 if the router did not report it.
        mtu: u32,
    },
    /// The hop limit was exceeded (ICMP time exceeded).
    TimeExceeded,
    /// The datagram was sent ([`Ancillary::SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP)).
    #[non_exhaustive]
    Sent {
        /// The message's [`timestamp_id`](crate::SendMeta::timestamp_id), or the datagram's number, counted on
        /// this socket from 0 since timestamps were turned on.
        id: u32,
        /// When the kernel passed the datagram to the device, by the system's clock.
        time: Option<SystemTime>,
        /// When the device sent it, by the device's clock.
        hardware_time: Option<Duration>,
    },
    /// Something else.
    #[default]
    Other,
}

impl Report {
    /// An empty report, to fill a slice for [`drain_errors`](super::drain_errors).
    ///
    /// ```
    /// use mmsg::error_queue::Report;
    /// let reports = [Report::EMPTY; 16];
    /// assert_eq!(reports[0], Report::default());
    /// ```
    pub const EMPTY: Self = Self { event: Event::Other, dest: None, offender: None, errno: 0 };

    /// Decodes the report of a message from the error queue, whose address is `dest`. `None` if it holds none.
    #[allow(unreachable_patterns)] // Several numbers may be `None` on a platform.
    pub(super) fn decode(control: ControlMessages<'_>, dest: Option<SocketAddr>) -> Option<Self> {
        let (mut error, mut stamps) = (None, (None, None));
        for message in control {
            match Some((message.level, message.ty)) {
                numbers::ERROR_V4 | numbers::ERROR_V6 => error = Some(message.data),
                numbers::TIMESTAMPING => stamps = timestamping(message.data),
                _ => {}
            }
        }
        Self::of_error(error?, stamps, dest)
    }

    /// Decodes a `struct sock_extended_err` (include/uapi/linux/errqueue.h) and the offender's address behind it. Types and
    /// codes are those of ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443).
    fn of_error(
        bytes: &[u8],
        (time, hardware_time): (Option<Duration>, Option<Duration>),
        dest: Option<SocketAddr>,
    ) -> Option<Self> {
        let (head, offender) = bytes.split_first_chunk::<16>()?;
        let [e0, e1, e2, e3, origin, ty, code, _, i0, i1, i2, i3, d0, d1, d2, d3] = *head;
        let errno = i32::from_ne_bytes([e0, e1, e2, e3]);
        let mtu = u32::from_ne_bytes([i0, i1, i2, i3]);
        let event = match (origin, ty, code) {
            (origin::ICMP, 3, 3) | (origin::ICMP6, 1, 4) => Event::Refused,
            (origin::ICMP, 3, 4) | (origin::ICMP6, 2, _) => Event::TooBig { mtu },
            (origin::ICMP, 3, _) | (origin::ICMP6, 1, _) => Event::Unreachable,
            (origin::ICMP, 11, _) | (origin::ICMP6, 3, _) => Event::TimeExceeded,
            (origin::LOCAL, ..) if errno == numbers::EMSGSIZE => Event::TooBig { mtu },
            (origin::TIMESTAMPING, ..) => {
                let id = u32::from_ne_bytes([d0, d1, d2, d3]);
                Event::Sent { id, time: time.and_then(system_time), hardware_time }
            }
            _ => Event::Other,
        };
        // A send timestamp has the error number ENOMSG.
        let errno = if origin == origin::TIMESTAMPING { 0 } else { errno };
        Some(Self { event, dest, offender: sys::decode_addr(offender), errno })
    }
}

/// `SO_EE_ORIGIN_*` of errqueue.h.
mod origin {
    pub(super) const LOCAL: u8 = 1;
    pub(super) const ICMP: u8 = 2;
    pub(super) const ICMP6: u8 = 3;
    pub(super) const TIMESTAMPING: u8 = 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(errno: i32, origin: u8, ty: u8, code: u8) -> Event {
        let [info, data] = [1280u32, 7].map(u32::to_ne_bytes);
        let error = [errno.to_ne_bytes(), [origin, ty, code, 0], info, data];
        let report = Report::of_error(error.as_flattened(), (None, None), None);
        report.expect("it is as long as the struct").event
    }

    #[test]
    fn icmp_is_classified_by_type_and_code() {
        for (origin, ty, code, expected) in [
            (origin::ICMP, 3, 3, Event::Refused),
            (origin::ICMP6, 1, 4, Event::Refused),
            (origin::ICMP, 3, 4, Event::TooBig { mtu: 1280 }),
            (origin::ICMP6, 2, 0, Event::TooBig { mtu: 1280 }),
            (origin::ICMP, 3, 1, Event::Unreachable),
            (origin::ICMP6, 1, 0, Event::Unreachable),
            (origin::ICMP, 11, 0, Event::TimeExceeded),
            (origin::ICMP6, 3, 0, Event::TimeExceeded),
            (origin::LOCAL, 0, 0, Event::Other),
            (origin::ICMP, 12, 0, Event::Other),
            (origin::TIMESTAMPING, 0, 0, Event::Sent { id: 7, time: None, hardware_time: None }),
        ] {
            assert_eq!(event(0, origin, ty, code), expected, "{origin} {ty} {code}");
        }
        assert_eq!(event(numbers::EMSGSIZE, origin::LOCAL, 0, 0), Event::TooBig { mtu: 1280 });
    }

    #[test]
    fn a_short_report_is_none() {
        let report = |len| Report::of_error(&vec![0; len], (None, None), None);
        assert_eq!(report(15), None);
        assert!(report(16).is_some_and(|report| report.offender.is_none()));
    }
}

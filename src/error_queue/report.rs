//! Reports of the error queue, decoded from control messages.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::ancillary::RecvMeta;
use crate::recv::message::Message;
use crate::sys::{self, numbers};

/// How many bytes of a quoted payload a report keeps: enough for the connection IDs of a QUIC packet (RFC 9000, section
/// 17.2), which a receiver of ICMP errors checks (section 14.2.1).
pub(super) const MAX_QUOTE: usize = 64;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Type of the ICMP error, or of the ICMPv6 error if `dest` is an IPv6 address that is not IPv4-mapped. `None` if
    /// no ICMP error came: this host rejected the datagram, or the event is [`Event::Sent`].
    #[doc(alias = "ee_type")]
    pub icmp_type: Option<u8>,
    /// Code of the ICMP error. `None` if `icmp_type` is.
    #[doc(alias = "ee_code")]
    pub icmp_code: Option<u8>,
    /// When the kernel received the ICMP error, by the system's clock, if [`TIMESTAMP`](crate::Ancillary::TIMESTAMP) is on. An error
    /// that came before or just after it was turned on may have the time of the read.
    pub timestamp: Option<SystemTime>,
    quote: Quote,
}

/// The start of a payload, zeros behind it. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
struct Quote {
    bytes: [u8; MAX_QUOTE],
    len: usize,
}

impl fmt::Debug for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

impl Default for Report {
    fn default() -> Self {
        Self::EMPTY
    }
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
    /// The destination is unreachable: no route, host down, prohibited (the other ICMP unreachables;
    /// [`Report::icmp_code`] says which).
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
    pub const EMPTY: Self = Self {
        event: Event::Other,
        dest: None,
        offender: None,
        errno: 0,
        icmp_type: None,
        icmp_code: None,
        timestamp: None,
        quote: Quote { bytes: [0; MAX_QUOTE], len: 0 },
    };

    /// The first bytes of the datagram's payload, as the ICMP error quotes them; at most 64.
    ///
    /// A router quotes as much as it likes: RFC 792 asks for none of the payload, RFC 1812 and RFC 4443 for what fits into 576
    /// and 1,280 bytes. Behind a short quote may be padding and extensions of the router's (RFC 4884). Anybody who sees a
    /// datagram, and often who only guesses its ports, can forge an error about it: before a report
    /// changes anything, let the payload begin with what nobody can guess, and look whether the quote begins with it, too.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, SendMsg};
    /// use mmsg::error_queue::{Report, drain_errors};
    /// # if !cfg!(target_os = "linux") { return Ok(()); }
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let nobody = std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    /// Ancillary::ERRORS.require(&socket)?;
    /// socket.send_batch(&[SendMsg::to(nobody, b"probe 7")])?;
    /// let mut reports = [Report::EMPTY; 1];
    /// while drain_errors(&socket, &mut reports)? == 0 {}
    /// assert!(reports[0].quote().starts_with(b"probe 7"));
    /// assert_eq!((reports[0].icmp_type, reports[0].icmp_code), (Some(3), Some(3)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn quote(&self) -> &[u8] {
        &self.quote.bytes[..self.quote.len]
    }

    /// Decodes a message of the error queue. Empty but for the destination if it holds no report.
    #[allow(unreachable_patterns)] // Several numbers may be `None` on a platform.
    pub(super) fn decode(message: &Message<'_>) -> Self {
        let error = message
            .control_messages()
            .find(|m| matches!(Some((m.level, m.ty)), numbers::ERROR_V4 | numbers::ERROR_V6));
        let report = error
            .and_then(|error| Self::of_error(error.data, message.meta(), message.data()))
            .unwrap_or_default();
        Self { dest: message.addr(), ..report }
    }

    /// Decodes a `struct sock_extended_err` (include/uapi/linux/errqueue.h) and the offender's address behind it. Types and
    /// codes are those of ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443).
    fn of_error(bytes: &[u8], meta: &RecvMeta, quoted: &[u8]) -> Option<Self> {
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
                Event::Sent { id, time: meta.timestamp, hardware_time: meta.hardware_timestamp }
            }
            _ => Event::Other,
        };
        // A send timestamp has the error number ENOMSG.
        let errno = if origin == origin::TIMESTAMPING { 0 } else { errno };
        let mut report = Self { event, offender: sys::decode_addr(offender), errno, ..Self::EMPTY };
        // The kernel's own errors have no arrival, and send timestamps may bring whole packets.
        if matches!(origin, origin::ICMP | origin::ICMP6) {
            let len = quoted.len().min(MAX_QUOTE);
            report.quote.bytes[..len].copy_from_slice(&quoted[..len]);
            report.quote.len = len;
            (report.icmp_type, report.icmp_code) = (Some(ty), Some(code));
            report.timestamp = meta.timestamp;
        }
        Some(report)
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

    fn report(errno: i32, origin: u8, ty: u8, code: u8) -> Report {
        let [info, data] = [1280u32, 7].map(u32::to_ne_bytes);
        let error = [errno.to_ne_bytes(), [origin, ty, code, 0], info, data];
        let report = Report::of_error(error.as_flattened(), &RecvMeta::NONE, &[1; MAX_QUOTE + 1]);
        report.expect("it is as long as the struct")
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
            let report = report(0, origin, ty, code);
            assert_eq!(report.event, expected, "{origin} {ty} {code}");
            // A send timestamp with the whole packet, of other code's making, has no quote either.
            let is_icmp = [origin::ICMP, origin::ICMP6].contains(&origin);
            let [expected_type, expected_code] = [ty, code].map(|n| is_icmp.then_some(n));
            assert_eq!((report.icmp_type, report.icmp_code), (expected_type, expected_code));
            assert_eq!(report.quote(), &[1; MAX_QUOTE][..if is_icmp { MAX_QUOTE } else { 0 }]);
        }
        let own = report(numbers::EMSGSIZE, origin::LOCAL, 0, 0);
        assert_eq!(own.event, Event::TooBig { mtu: 1280 });
    }

    #[test]
    fn a_short_report_is_none() {
        let report = |len| Report::of_error(&vec![0; len], &RecvMeta::NONE, b"");
        assert_eq!(report(15), None);
        assert!(report(16).is_some_and(|report| report.offender.is_none()));
    }
}

//! The socket's error queue: ICMP errors about sent datagrams, and send timestamps.
//!
//! [`drain_errors`] reads the queue, on Linux and Android. Elsewhere it returns `Unsupported`, and there are no reports.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::ancillary::RecvMeta;
use crate::arena;
use crate::recv::message::Message;
use crate::sys::{self, AsSocket, BorrowedSocket, Flags, numbers};

/// Reads the socket's error queue into `reports`, without waiting, and returns the number of reports.
///
/// The queue fills once [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) or
/// [`Ancillary::SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on. Call this whenever `poll` or epoll reports an
/// error on the socket, or from time to time, until it returns fewer than `reports.len()`: `poll` and epoll report the
/// error until the queue is empty. tokio has `AsyncBatchSocket::recv_errors`, mio's events have `is_error`, and without a
/// runtime `rustix::event::poll` waits with no events asked for, since it reports `PollFlags::ERR` always.
///
/// With `ERRORS` on, the next call on the socket fails with the error, too, also a call of std or tokio. Of its own
/// calls, the crate repeats one up to 16 times if it is a send whose message has a destination, or a receive on an
/// unconnected socket: the error is probably about another datagram, whose report is in the queue. Then it returns the
/// error, which in a flood of reports is still another datagram's. Before it repeats a send, it asks the kernel whether the
/// message itself has a route (`MSG_PROBE`), and if not returns the error. What rejects a message behind that question, such as a
/// firewall's mark, costs 17 sends. A connected socket's other calls return the error, which is about the peer. A send that fails with `EMSGSIZE` is repeated once, on any socket: an earlier datagram may
/// have been the long one.
///
/// - The queue shares the socket's receive buffer: Linux's default of 208 KiB holds 250 reports about datagrams of 10 bytes,
///   90 about those of 1,200 bytes. When the queue is full, the kernel drops further reports, and the next call returns the
///   error although it is about another datagram. A send that returns it has not sent its first message: send it again.
///   While the queue is nearly full, one error may arrive both ways. To reach more destinations at once, raise the buffer
///   with [`set_recv_buffer`](crate::options::set_recv_buffer), or send and drain fewer at a time.
/// - `sendmmsg` may hide an error once its first message is sent: then only the report tells.
/// - This host may report [`Event::TooBig`] several times for one datagram, since the crate tries it more than once, and each
///   `EMSGSIZE` of a send queues one, too. Such reports have no [`offender`](Report::offender). Do not count them; their
///   `mtu` is valid. A router reports a datagram that it drops at most once.
///
/// ```
/// use mmsg::Ancillary;
/// use mmsg::error_queue::{Event, Report, drain_errors};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// Ancillary::ERRORS.require(&socket)?;
/// let mut reports = [Report::EMPTY; 16];
/// let n = drain_errors(&socket, &mut reports)?;
/// for report in &reports[..n] {
///     match report.event {
///         Event::TooBig { mtu } => println!("{:?}: at most {mtu} bytes", report.dest),
///         event => println!("{:?}: {event:?}", report.dest),
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// The system's error. `Unsupported`, and nothing is taken from the socket, if it has no error queue:
/// Linux and Android have it, for UDP, ICMP and raw sockets.
#[doc(alias("MSG_ERRQUEUE", "IP_RECVERR"))]
pub fn drain_errors(
    socket: &(impl AsSocket + ?Sized),
    reports: &mut [Report],
) -> io::Result<usize> {
    let socket = sys::borrow(socket);
    // A socket without an error queue would ignore the flag and return its data.
    if !sys::has_error_queue(socket)? {
        let reason = "this socket has no error queue: Linux and Android have one for UDP, ICMP and raw sockets";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let mut done = 0;
    for step in reports.chunks_mut(REPORTS_PER_CALL) {
        match drain_once(socket, step) {
            Ok(count) => {
                done += count;
                if count < step.len() {
                    break;
                }
            }
            // The error is about the socket itself, so the next call meets it again.
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// How many reports one system call reads.
const REPORTS_PER_CALL: usize = 8;

/// Reads up to [`REPORTS_PER_CALL`] reports with one system call, and returns how many came.
fn drain_once(socket: BorrowedSocket<'_>, reports: &mut [Report]) -> io::Result<usize> {
    let flags = Flags::ERROR_QUEUE | Flags::DONT_WAIT;
    let mut quotes = [[0; MAX_QUOTE]; REPORTS_PER_CALL];
    let mut buffers = quotes.each_mut().map(|quote| IoSliceMut::new(quote));
    let buffers = &mut buffers[..reports.len()];
    let mut each = |i, message: Message<'_>| reports[i] = Report::decode(&message);
    match arena::with(|arena| arena.recv_slices(socket, buffers, flags, &mut each)) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

/// How many bytes of a quoted payload a report keeps: enough for the connection IDs of a QUIC packet (RFC 9000, section
/// 17.2), which a receiver of ICMP errors checks (section 14.2.1).
const MAX_QUOTE: usize = 64;

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
    /// An empty report, to fill a slice for [`drain_errors`].
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
    fn decode(message: &Message<'_>) -> Self {
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

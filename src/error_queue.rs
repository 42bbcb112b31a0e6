//! The socket's error queue: ICMP errors about sent datagrams, and send timestamps.

use std::array;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use crate::ancillary::{ControlBuf, ControlMessages, system_time, timestamping};
use crate::engine::pool;
use crate::recv::msg::RecvMsg;
use crate::sys::{self, AsSocket, numbers};

/// An event that concerns an earlier sent datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What happened.
    pub event: Event,
    /// The datagram's destination. `None` for send timestamps, and if the system did not report it.
    /// Linux reports port 0 if this host itself found an IPv4 datagram of an unconnected socket too
    /// big.
    pub dest: Option<SocketAddr>,
    /// The reporting host: a router, or the destination. `None` if it was this host.
    pub reporter: Option<IpAddr>,
    /// The error number that a send would have returned; 0 for a send timestamp.
    pub errno: i32,
}

/// What happened to a datagram.
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
    Sent {
        /// The datagram's number, counted on this socket from 0 since timestamps were turned on.
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
    pub const EMPTY: Self = Self { event: Event::Other, dest: None, reporter: None, errno: 0 };
}

impl Default for Report {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Reads the socket's error queue into `reports` and returns the number of reports. Never waits.
///
/// The queue fills once [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) or
/// [`Ancillary::SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on. Then
/// call this whenever `poll` or epoll reports an error on the socket, until it returns less than
/// `reports.len()`: readiness reports an error until the queue is empty. Calling it from time to time
/// works as well.
///
/// With `ERRORS` on, the kernel also fails the next call on the socket once with the error. The crate
/// repeats a send that has its own destination, since the error is about another datagram and its
/// report is in the queue. It repeats a receive on an unconnected socket as well; a receive on a
/// connected socket returns the error, which is about the peer, once.
///
/// - The queue shares the socket's receive buffer. When the buffer is nearly full, the kernel may drop
///   the report, so the call that meets the error returns it. (After the first message of a `sendmmsg`
///   the kernel drops that error as well.)
/// - [`Event::TooBig`] from this host itself may be reported several times for one datagram, so do not
///   count it. On an unconnected socket such a datagram is tried twice each time it is offered, and each
///   try queues a report: two for the first message of a call, four for a later message, which ends the
///   batch and is offered again by the next call.
///
/// ```
/// use mmsg::{Ancillary, Event, Report, drain_errors};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// Ancillary::ERRORS.enable(&socket)?;
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
/// Linux and Android have it, for UDP, TCP, ICMP and raw sockets.
pub fn drain_errors(socket: &impl AsSocket, reports: &mut [Report]) -> io::Result<usize> {
    /// Few, since they are on the stack, and a queue is rarely longer.
    const STEP: usize = 8;

    let socket = sys::borrow(socket);
    // A socket without an error queue would ignore the flag and return its data.
    if !sys::has_error_queue(socket)? {
        let reason = "the socket has no error queue";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let mut done = 0;
    while done < reports.len() {
        let space = &mut reports[done..];
        let step_len = space.len().min(STEP);
        let mut controls: [ControlBuf; STEP] = array::from_fn(|_| ControlBuf::new());
        // The queue also has the datagram's payload, which is not needed.
        let mut controls = controls.iter_mut();
        let mut msgs: [RecvMsg<'_>; STEP] = array::from_fn(|_| {
            let control = controls.next().expect("as many as messages");
            RecvMsg::new(&mut []).with_control(control)
        });
        let count = match pool::with(|arena| arena.recv_errors_on(socket, &mut msgs[..step_len])) {
            Ok(count) => count,
            // About the socket itself, so the next call meets it again.
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        };
        for (report, msg) in space.iter_mut().zip(&msgs[..count]) {
            *report = read(msg.control_messages(), msg.addr());
        }
        done += count;
        if count < step_len {
            break;
        }
    }
    Ok(done)
}

/// Reads the report out of a message's control data.
#[allow(unreachable_patterns)] // Several numbers may be `None` on a platform.
fn read(control: ControlMessages<'_>, dest: Option<SocketAddr>) -> Report {
    let mut report = Report { dest, ..Report::EMPTY };
    let mut stamps = (None, None);
    for message in control {
        match Some((message.level, message.ty)) {
            numbers::ERROR_V4 | numbers::ERROR_V6 => {
                if let Some((error, offender)) = ExtendedError::read(message.data) {
                    report.event = error.event();
                    // A timestamp has the error number ENOMSG.
                    report.errno = if error.is_stamp() { 0 } else { error.errno };
                    report.reporter = sys::socket_addr(offender).map(|addr| addr.ip());
                }
            }
            numbers::TIMESTAMPING => stamps = timestamping(message.data),
            _ => {}
        }
    }
    if let Event::Sent { time, hardware_time, .. } = &mut report.event {
        *time = stamps.0.and_then(system_time);
        *hardware_time = stamps.1;
    }
    report
}

/// `struct sock_extended_err` (include/uapi/linux/errqueue.h).
#[derive(Clone, Copy, Debug)]
struct ExtendedError {
    errno: i32,
    origin: u8,
    ty: u8,
    code: u8,
    info: u32,
    data: u32,
}

/// `SO_EE_ORIGIN_*` of the same file.
mod origin {
    pub(super) const LOCAL: u8 = 1;
    pub(super) const ICMP: u8 = 2;
    pub(super) const ICMP6: u8 = 3;
    pub(super) const TIMESTAMPING: u8 = 4;
}

impl ExtendedError {
    /// The struct, and the offender's address behind it.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let ([e0, e1, e2, e3, origin, ty, code, _, i0, i1, i2, i3, d0, d1, d2, d3], offender) =
            bytes.split_first_chunk::<16>()?;
        let error = Self {
            errno: i32::from_ne_bytes([*e0, *e1, *e2, *e3]),
            origin: *origin,
            ty: *ty,
            code: *code,
            info: u32::from_ne_bytes([*i0, *i1, *i2, *i3]),
            data: u32::from_ne_bytes([*d0, *d1, *d2, *d3]),
        };
        Some((error, offender))
    }

    fn is_stamp(self) -> bool {
        self.origin == origin::TIMESTAMPING
    }

    /// By the types and codes of ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443).
    fn event(self) -> Event {
        match (self.origin, self.ty, self.code) {
            (origin::ICMP, 3, 3) | (origin::ICMP6, 1, 4) => Event::Refused,
            (origin::ICMP, 3, 4) | (origin::ICMP6, 2, _) => Event::TooBig { mtu: self.info },
            (origin::ICMP, 3, _) | (origin::ICMP6, 1, _) => Event::Unreachable,
            (origin::ICMP, 11, _) | (origin::ICMP6, 3, _) => Event::TimeExceeded,
            (origin::LOCAL, ..) if self.errno == numbers::EMSGSIZE => {
                Event::TooBig { mtu: self.info }
            }
            (origin::TIMESTAMPING, ..) => {
                Event::Sent { id: self.data, time: None, hardware_time: None }
            }
            _ => Event::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(origin: u8, ty: u8, code: u8) -> ExtendedError {
        ExtendedError { errno: 0, origin, ty, code, info: 1280, data: 7 }
    }

    #[test]
    fn icmp_is_classified_by_type_and_code() {
        let cases = [
            (error(origin::ICMP, 3, 3), Event::Refused),
            (error(origin::ICMP6, 1, 4), Event::Refused),
            (error(origin::ICMP, 3, 4), Event::TooBig { mtu: 1280 }),
            (error(origin::ICMP6, 2, 0), Event::TooBig { mtu: 1280 }),
            (error(origin::ICMP, 3, 1), Event::Unreachable),
            (error(origin::ICMP6, 1, 0), Event::Unreachable),
            (error(origin::ICMP, 11, 0), Event::TimeExceeded),
            (error(origin::ICMP6, 3, 0), Event::TimeExceeded),
            (error(origin::LOCAL, 0, 0), Event::Other),
            (error(origin::ICMP, 12, 0), Event::Other),
            (
                error(origin::TIMESTAMPING, 0, 0),
                Event::Sent { id: 7, time: None, hardware_time: None },
            ),
        ];
        for (error, event) in cases {
            assert_eq!(error.event(), event, "{error:?}");
        }
        let local = ExtendedError { errno: numbers::EMSGSIZE, ..error(origin::LOCAL, 0, 0) };
        assert_eq!(local.event(), Event::TooBig { mtu: 1280 });
    }

    #[test]
    fn a_short_report_is_none() {
        assert!(ExtendedError::read(&[0; 15]).is_none());
        assert!(ExtendedError::read(&[0; 16]).is_some_and(|(_, offender)| offender.is_empty()));
    }
}

//! The socket's error queue: ICMP errors about datagrams that were sent, and stamps of sending.

use std::array;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use crate::ancillary::{ControlBuf, ControlMessages, system_time, timestamping};
use crate::engine::pool;
use crate::recv::msg::RecvMsg;
use crate::sys::{self, AsSocket, numbers};

/// Something that the system tells about a datagram sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What happened.
    pub event: Event,
    /// The destination that the datagram was sent to. `None` for stamps, and where the system
    /// did not tell. Linux leaves the port 0 where it was this host that found an IPv4 datagram of
    /// an unconnected socket too big.
    pub dest: Option<SocketAddr>,
    /// Who reported it: a router, the destination itself. `None` if it was this host.
    pub reporter: Option<IpAddr>,
    /// The system's error number, as a send would have returned it; 0 for a stamp.
    pub errno: i32,
}

/// What happened to a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Nobody listens on that port (ICMP port unreachable, RFC 792 and RFC 4443).
    Refused,
    /// It cannot get there: no route, host down, prohibited (the other ICMP unreachables).
    Unreachable,
    /// It is too big for a link on the way, or for this host's own, which takes `mtu` bytes, IP
    /// header included (ICMP fragmentation needed, RFC 1191; ICMPv6 packet too big, RFC 8201).
    TooBig {
        /// Bytes that the link takes; 0 if a router did not tell.
        mtu: u32,
    },
    /// Its hops ran out on the way (ICMP time exceeded).
    TimeExceeded,
    /// It was sent ([`Ancillary::SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP)).
    Sent {
        /// The datagram's number: how many were sent on this socket before it, since the stamps
        /// were turned on.
        id: u32,
        /// When the kernel gave it to the device, by the system's clock.
        time: Option<SystemTime>,
        /// When the device sent it, by the device's clock.
        hardware_time: Option<Duration>,
    },
    /// Something else.
    #[default]
    Other,
}

impl Report {
    /// Nothing: what to fill a slice with for [`drain_errors`].
    pub const EMPTY: Self = Self { event: Event::Other, dest: None, reporter: None, errno: 0 };
}

impl Default for Report {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Takes what is in the socket's error queue, as far as `reports` has room, and returns how many
/// it was. Never waits.
///
/// The queue fills once [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) or
/// [`Ancillary::SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on. Whoever turns them on
/// must call this whenever `poll`, epoll or the like report an error on the socket, until it
/// returns less than `reports.len()`: an undrained queue is reported for ever. It does no harm to
/// call it every now and then instead.
///
/// With `ERRORS` on, the kernel also makes the next call on the socket fail once with the error. A
/// send to a destination of its own is then made again by this crate: the report is in the queue,
/// and the datagram to somebody else is innocent. A receive on an unconnected socket goes on in the
/// same way; on a connected one it gives the error, which is about the peer, once.
///
/// - The queue shares the socket's receive buffer. When that is nearly full, the kernel may drop the
///   report, so the call that meets the error returns it. (Within a `sendmmsg`, after its first
///   message, the kernel drops that as well.)
/// - A datagram that this host itself finds too big is tried twice each time it is offered, and each
///   try puts a report in the queue. So it is reported twice as the first message of a call, and four
///   times behind others, where it ends the batch and is offered again by the next call.
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
/// What the system says of the socket. `Unsupported`, and nothing is taken from the socket, where
/// there is no error queue: Linux and Android have it, for UDP, TCP, ICMP and raw sockets.
pub fn drain_errors(socket: &impl AsSocket, reports: &mut [Report]) -> io::Result<usize> {
    /// Few, since they are on the stack; a queue is rarely longer.
    const STEP: usize = 8;

    let socket = sys::borrow(socket);
    // Asked before anything is received: a socket without the queue would give up its data.
    if !sys::has_error_queue(socket)? {
        let reason = "the socket has no error queue";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let mut done = 0;
    while done < reports.len() {
        let space = &mut reports[done..];
        let step_len = space.len().min(STEP);
        let mut controls: [ControlBuf; STEP] = array::from_fn(|_| ControlBuf::new());
        // What was sent is not asked for: the queue holds a copy of it.
        let mut controls = controls.iter_mut();
        let mut msgs: [RecvMsg<'_>; STEP] = array::from_fn(|_| {
            let control = controls.next().expect("as many as messages");
            RecvMsg::new(&mut []).with_control(control)
        });
        let count = match pool::with(|arena| arena.recv_errors_on(socket, &mut msgs[..step_len])) {
            Ok(count) => count,
            // Of the socket itself, so that the next call meets it again.
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
fn read(control: ControlMessages<'_>, dest: Option<SocketAddr>) -> Report {
    let mut report = Report { dest, ..Report::EMPTY };
    let mut stamps = (None, None);
    for message in control {
        match Some((message.level, message.ty)) {
            numbers::ERROR_V4 | numbers::ERROR_V6 => {
                if let Some((error, offender)) = ExtendedError::read(message.data) {
                    report.event = error.event();
                    // A stamp comes as ENOMSG: "no error" among the errors.
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

/// `SO_EE_ORIGIN_*`, there.
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
    fn icmp_is_told_by_type_and_code() {
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

//! The socket's error queue: ICMP errors about sent datagrams, and send timestamps.
//!
//! Linux and Android. [`drain_errors`] reads it; [`Report`] can also be decoded from the control messages of
//! a receive by other means.

mod report;

use std::array;
use std::io;

pub use report::{Event, Origin, Report};

use crate::ancillary::ControlBuf;
use crate::arena;
use crate::recv::msg::RecvMsg;
use crate::sys::{self, AsSocket, BorrowedSocket, RecvFlags};

/// Reads the socket's error queue into `reports`, without waiting, and returns the number of reports.
///
/// The queue fills once [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) or
/// [`Ancillary::SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on. Then
/// call this whenever `poll` or epoll reports an error on the socket, until it returns less than
/// `reports.len()`: readiness reports an error until the queue is empty. Calling it from time to time
/// works as well.
///
/// With `ERRORS` on, the kernel also fails the next call on the socket with the error. The crate makes a send to a
/// destination of its own again, since the error is about another datagram and its report is in the queue, and a receive on
/// an unconnected socket as well. A receive on a connected socket returns the error, which is about the peer.
///
/// - The queue shares the socket's receive buffer: Linux's default of 208 KiB holds some 250 reports. When it is full, the
///   kernel drops further reports, and the call that meets such an error returns it, although it is about another
///   datagram; a send has then not sent its first message: send it again. While the queue is nearly full, one error may
///   come both ways. To reach more destinations at once, raise the
///   buffer by [`set_recv_buffer`](crate::options::set_recv_buffer), or send and drain some hundred at a time.
/// - The kernel may hide an error behind the first message of a `sendmmsg`: then the report alone tells.
/// - [`Event::TooBig`] from this host itself may be reported several times for one datagram, which is tried more than once:
///   do not count it.
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
/// Linux and Android have it, for UDP, TCP, ICMP and raw sockets.
#[doc(alias("MSG_ERRQUEUE", "IP_RECVERR"))]
pub fn drain_errors(socket: &impl AsSocket, reports: &mut [Report]) -> io::Result<usize> {
    let socket = sys::borrow(socket);
    // A socket without an error queue would ignore the flag and return its data.
    if !sys::has_error_queue(socket)? {
        let reason = "the socket has no error queue";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let mut done = 0;
    for step in reports.chunks_mut(STEP) {
        match drain(socket, step) {
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

/// Reports read by one system call.
const STEP: usize = 8;

/// Reads up to [`STEP`] reports by one system call; 0 if there are none.
fn drain(socket: BorrowedSocket<'_>, reports: &mut [Report]) -> io::Result<usize> {
    let mut controls: [ControlBuf; STEP] = array::from_fn(|_| ControlBuf::new());
    let mut msgs = controls.each_mut().map(|control| RecvMsg::new(&mut []).with_control(control));
    let flags = RecvFlags::ERROR_QUEUE | RecvFlags::DONT_WAIT;
    let msgs = &mut msgs[..reports.len()];
    let count = match arena::with(|arena| arena.recv_on(socket, msgs, flags)) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        result => result?,
    };
    for (report, msg) in reports.iter_mut().zip(&msgs[..count]) {
        let dest = msg.addr();
        let decoded = Report::decode(msg.message().control_messages(), dest);
        *report = decoded.unwrap_or(Report { dest, ..Report::EMPTY });
    }
    Ok(count)
}

//! The socket's error queue: ICMP errors about sent datagrams, and send timestamps.
//!
//! [`drain_errors`] reads the queue, on Linux and Android. Elsewhere it returns `Unsupported`, and there are no reports.

mod report;

use std::io::{self, IoSliceMut};

use report::MAX_QUOTE;
pub use report::{Event, Report};

use crate::arena;
use crate::recv::message::Message;
use crate::sys::{self, AsSocket, BorrowedSocket, Flags};

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

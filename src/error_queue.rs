//! The socket's error queue: ICMP errors about sent datagrams, and send timestamps.
//!
//! Linux and Android. [`drain_errors`] reads it; [`Report`] can also be decoded from the control messages of
//! a receive by other means.

mod report;

use std::array;
use std::io::{self, IoSliceMut};

pub use report::{Event, Origin, Report};

use crate::ancillary::ControlBuf;
use crate::engine::pool;
use crate::recv::msg::RecvMsg;
use crate::sys::{self, AsSocket, BorrowedSocket};

/// Reads the socket's error queue into `reports`, without waiting, and returns the number of reports.
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
    let len = reports.len();
    drain(sys::borrow(socket), &mut reports.iter_mut().map(|report| (report, &mut [][..])), len)
}

/// Like [`drain_errors`], with the datagrams' own bytes: reads at most as many reports as there are
/// buffers.
///
/// The beginning of each datagram's payload is written into the buffer beside its report, and
/// [`data_len`](Report::data_len) says how many bytes. A router quotes the beginning of the datagram that
/// its ICMP error is about: at least 8 bytes of payload for most, up to about 500 (IPv4) or 1,200 (IPv6).
/// There are none for send timestamps and for datagrams that this host itself found too big.
///
/// ```
/// use mmsg::Ancillary;
/// use mmsg::error_queue::{Report, drain_errors_with};
/// use std::io::IoSliceMut;
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// Ancillary::ERRORS.require(&socket)?;
/// let mut reports = [Report::EMPTY; 16];
/// let mut memory = [[0; 64]; 16];
/// let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
/// let n = drain_errors_with(&socket, &mut reports, &mut buffers)?;
/// for (report, buffer) in reports[..n].iter().zip(&buffers) {
///     println!("{:?} about {:?}", report.event, &buffer[..report.data_len]);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`drain_errors`].
#[doc(alias("MSG_ERRQUEUE", "IP_RECVERR"))]
pub fn drain_errors_with(
    socket: &impl AsSocket,
    reports: &mut [Report],
    buffers: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    let len = reports.len().min(buffers.len());
    let buffers = buffers.iter_mut().map(|buffer| &mut **buffer);
    drain(sys::borrow(socket), &mut reports.iter_mut().zip(buffers), len)
}

/// Reads up to `len` reports, each with the memory for its datagram.
fn drain<'r>(
    socket: BorrowedSocket<'_>,
    reports: &mut dyn Iterator<Item = (&'r mut Report, &'r mut [u8])>,
    len: usize,
) -> io::Result<usize> {
    /// Few, since they are on the stack, and a queue is rarely longer.
    const STEP: usize = 8;

    // A socket without an error queue would ignore the flag and return its data.
    if !sys::has_error_queue(socket)? {
        let reason = "the socket has no error queue";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let mut done = 0;
    while done < len {
        let step_len = (len - done).min(STEP);
        let mut controls: [ControlBuf; STEP] = array::from_fn(|_| ControlBuf::new());
        let mut controls = controls.iter_mut();
        let mut step: [Option<&mut Report>; STEP] = array::from_fn(|_| None);
        let mut next = step.iter_mut();
        let mut msgs: [RecvMsg<'_>; STEP] = array::from_fn(|i| {
            let control = controls.next().expect("as many as messages");
            let (report, data) = if i < step_len { reports.next() } else { None }.unzip();
            *next.next().expect("as many as messages") = report;
            RecvMsg::new(data.unwrap_or(&mut [])).with_control(control)
        });
        let count = match pool::with(|arena| arena.recv_errors_on(socket, &mut msgs[..step_len])) {
            Ok(count) => count,
            // The error is about the socket itself, so the next call meets it again.
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        };
        for (report, msg) in step.iter_mut().flatten().zip(&msgs[..count]) {
            let dest = msg.addr();
            let decoded = Report::decode(msg.control_messages(), dest);
            let data_len = msg.len();
            **report = Report { data_len, ..decoded.unwrap_or(Report { dest, ..Report::EMPTY }) };
        }
        done += count;
        if count < step_len {
            break;
        }
    }
    Ok(done)
}

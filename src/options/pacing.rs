//! The pace at which the kernel lets datagrams leave.

use std::io;

use crate::sys::numbers;
use crate::sys::{self, AsSocket};

/// Limits how fast the socket sends, in bytes per second with headers; `None` removes the limit (`SO_MAX_PACING_RATE`,
/// Linux 3.13).
///
/// The fq queueing discipline of the device spaces the socket's datagrams; without fq, UDP is not paced. A GSO
/// batch leaves as one burst: see [`OffloadBuilder::max_segments`](crate::offload::OffloadBuilder::max_segments).
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// if let Err(error) = mmsg::options::set_max_pacing_rate(&socket, Some(12_500_000)) {
///     eprintln!("not paced: {error}"); // 100 Mbit/s.
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `Unsupported` on other platforms than Linux and Android; else the system's error.
#[doc(alias = "SO_MAX_PACING_RATE")]
pub fn set_max_pacing_rate(
    socket: &(impl AsSocket + ?Sized),
    bytes_a_second: Option<u64>,
) -> io::Result<()> {
    // An unsigned long for the kernel, with all bits set for no limit (sk_setsockopt in net/core/sock.c).
    let rate = bytes_a_second
        .map_or(usize::MAX, |rate| usize::try_from(rate).unwrap_or(usize::MAX).min(usize::MAX - 1));
    sys::set_option_bytes(sys::borrow(socket), numbers::MAX_PACING_RATE, &rate.to_ne_bytes())
}

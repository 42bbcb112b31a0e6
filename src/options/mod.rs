//! Socket options that std and socket2 lack, for every socket that this crate works with.
//!
//! - [`Fragmentation`], [`path_mtu`]: what happens to datagrams longer than an MTU on their path
//! - [`set_recv_buffer`], [`set_send_buffer`]: buffers as large as the system accepts
//! - [`dropped`]: how many datagrams the kernel has dropped
//! - [`set_max_pacing_rate`]: the pace at which datagrams leave
//!
//! The [guide](crate::guide::real_networks) says which to set. [`Ancillary`](crate::Ancillary) enables metadata.

mod buffers;
mod fragmentation;

use std::io;

pub use buffers::{set_recv_buffer, set_send_buffer};
pub use fragmentation::{Fragmentation, path_mtu};

use crate::sys::{self, AsSocket, numbers};

/// How many datagrams the kernel has dropped on this socket for lack of buffer space, as a 32-bit number that wraps
/// (`SO_MEMINFO`, Linux 4.12).
///
/// It counts from the socket's creation, and is current even when idle. A metric reads it from time to time and subtracts
/// the previous count:
///
/// ```
/// use mmsg::options::dropped;
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let (mut total, mut last) = (0u64, dropped(&socket)?);
/// // Once per second:
/// let now = dropped(&socket)?;
/// total += u64::from(now.wrapping_sub(last));
/// last = now;
/// println!("{total} datagrams dropped");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// With [`Ancillary::DROPPED`](crate::Ancillary::DROPPED), each received datagram has the same count in
/// [`RecvMeta::dropped`](crate::RecvMeta::dropped), as it was when the datagram was queued.
///
/// # Errors
///
/// `Unsupported` on other platforms than Linux and Android; else the system's error.
#[doc(alias("SO_MEMINFO", "SK_MEMINFO_DROPS", "SO_RXQ_OVFL"))]
pub fn dropped(socket: &(impl AsSocket + ?Sized)) -> io::Result<u32> {
    // `SK_MEMINFO_DROPS` is the last of the `SK_MEMINFO_VARS` (include/uapi/linux/sock_diag.h).
    let [.., a, b, c, d] = sys::option_bytes::<36>(sys::borrow(socket), numbers::MEMINFO)?;
    Ok(u32::from_ne_bytes([a, b, c, d]))
}

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
    bytes_per_second: Option<u64>,
) -> io::Result<()> {
    // An unsigned long for the kernel, with all bits set for no limit (sk_setsockopt in net/core/sock.c).
    let rate = bytes_per_second
        .map_or(usize::MAX, |rate| usize::try_from(rate).unwrap_or(usize::MAX).min(usize::MAX - 1));
    sys::set_option_checked(sys::borrow(socket), numbers::MAX_PACING_RATE, &rate.to_ne_bytes())
}

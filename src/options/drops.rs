//! How many datagrams the kernel has dropped.

use std::io;

use crate::sys::{self, AsSocket, numbers};

/// How many datagrams the kernel has dropped on this socket for lack of buffer space, as a 32-bit number that wraps
/// (`SO_MEMINFO`, Linux 4.12).
///
/// It counts from the socket's creation, and is right also while nothing arrives. A metric reads it from time to time and
/// subtracts the previous count:
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

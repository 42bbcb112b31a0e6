//! Classes of errors that std's [`ErrorKind`](io::ErrorKind) does not tell apart, and the errors of this
//! crate's own types.
//!
//! The functions look at the system's error number, allocate nothing, and are false for every error
//! without one. [The guide](crate::guide::errors) says what each error means and what to do.

use std::io;

pub use crate::send::queue::PushError;
use crate::sys::{self, numbers};

/// Whether a datagram is too long: for UDP, or for its path if it must not be fragmented (`EMSGSIZE`).
///
/// A probe for the path's MTU ends with this error: go on with shorter datagrams.
///
/// ```
/// use mmsg::errors::is_too_big;
/// use mmsg::{BatchSocket, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// let error = socket.send_batch(&[SendMsg::to(to, &[0; 70_000])]).unwrap_err();
/// assert!(is_too_big(&error));
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "EMSGSIZE")]
#[must_use]
pub fn is_too_big(error: &io::Error) -> bool {
    error.raw_os_error() == Some(numbers::EMSGSIZE)
}

/// Whether the kernel may have rejected a message because of its
/// [segment size](crate::SendMeta::segment_size), and might take its datagrams one by one.
///
/// True for `EIO`, `EOPNOTSUPP`, `EINVAL` and `EMSGSIZE`, on Linux and Android. Each has other causes as
/// well, so ask only after a message with a segment size, and send its datagrams without one. An
/// [`Offload`](crate::Offload) does this itself.
///
/// ```
/// use mmsg::errors::is_gso_rejected;
/// use mmsg::{BatchSocket, BatchSocketExt, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// let data = [7; 3000];
/// let whole = SendMsg::to(to, &data).with_segment_size(1000);
/// match socket.send_batch(&[whole]) {
///     Err(error) if is_gso_rejected(&error) => {
///         socket.send_each(data.chunks(1000).map(|data| SendMsg::to(to, data)), |_, error| println!("{error}"))?;
///     }
///     result => assert_eq!(result?, 1),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("UDP_SEGMENT", "EIO"))]
#[must_use]
pub fn is_gso_rejected(error: &io::Error) -> bool {
    sys::segmentation_rejected(error).is_some()
}

/// Whether a queue below the socket was full and the datagram is lost (`ENOBUFS`).
///
/// This is not `WouldBlock`: readiness does not tell when that queue has space again.
///
/// ```
/// use mmsg::errors::is_out_of_buffers;
/// let error = std::io::Error::from(std::io::ErrorKind::WouldBlock);
/// assert!(!is_out_of_buffers(&error));
/// ```
#[doc(alias = "ENOBUFS")]
#[must_use]
pub fn is_out_of_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(numbers::ENOBUFS)
}

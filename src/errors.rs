//! An error that std's [`ErrorKind`](io::ErrorKind) does not tell apart, and the errors of this crate's own types.
//!
//! [The guide](crate::guide::errors) says what each error means and what to do.

use std::io;

pub use crate::send::queue::PushError;
use crate::sys::numbers;

/// Whether a datagram is too long: for UDP, or for its path if it must not be fragmented (`EMSGSIZE`).
///
/// A probe for the path's MTU ends with this error: go on with shorter datagrams. False for an error without a number of
/// the system.
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

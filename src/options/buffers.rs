//! The sizes of a socket's buffers.

use std::io;

use socket2::{SockRef, Socket};

use crate::events;
use crate::sys::numbers::{self, OptionName};
use crate::sys::{self, AsSocket, BorrowedSocket};

/// Sets the receive buffer to the largest size that the system accepts, up to `bytes`, and returns that size.
///
/// The size counts the kernel's own structures as well: a small datagram takes some 768 bytes on Linux.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let wanted = 4 << 20;
/// let size = mmsg::options::set_recv_buffer(&socket, wanted)?;
/// if size < wanted {
///     eprintln!("the receive buffer has {size} bytes: raise net.core.rmem_max");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Platforms
///
/// - Linux, Android: a size beyond `net.core.rmem_max` takes `CAP_NET_ADMIN` (`SO_RCVBUFFORCE`); without it, the system
///   silently uses that limit. The kernel doubles the size for its own structures, and `SO_RCVBUF` reads back doubled;
///   the result here is not.
/// - macOS takes `kern.ipc.maxsockbuf` in place of a larger size. The BSDs reject a size beyond their limit, so the crate
///   tries smaller ones.
///
/// # Errors
///
/// The system's error, if it accepts no size.
#[doc(alias("SO_RCVBUF", "SO_RCVBUFFORCE"))]
pub fn set_recv_buffer(socket: &(impl AsSocket + ?Sized), bytes: usize) -> io::Result<usize> {
    let (set, get) = (Socket::set_recv_buffer_size, Socket::recv_buffer_size);
    set_largest(("receive", numbers::RECV_BUFFER_FORCED), sys::borrow(socket), bytes, set, get)
}

/// Sets the send buffer to the largest size that the system accepts, up to `bytes`, and returns that size.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let size = mmsg::options::set_send_buffer(&socket, 1 << 20)?;
/// println!("{size} bytes may wait to be sent");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Platforms
///
/// As for [`set_recv_buffer`], with `net.core.wmem_max` and `SO_SNDBUFFORCE`.
///
/// On macOS the buffer limits the length of a datagram (9,216 bytes by default), its control messages included: a
/// longer message is [too big](crate::errors::is_too_big), where the system itself would wait, or report `WouldBlock`,
/// for ever (quinn#2727). Make it at least 2 KiB longer than the longest datagram: 65,527 + 2,048 bytes are enough for
/// any. With a buffer below 2 KiB, a blocking send with control messages is not checked.
///
/// # Errors
///
/// The system's error, if it accepts no size.
#[doc(alias("SO_SNDBUF", "SO_SNDBUFFORCE"))]
pub fn set_send_buffer(socket: &(impl AsSocket + ?Sized), bytes: usize) -> io::Result<usize> {
    let (set, get) = (Socket::set_send_buffer_size, Socket::send_buffer_size);
    set_largest(("send", numbers::SEND_BUFFER_FORCED), sys::borrow(socket), bytes, set, get)
}

/// Sets a buffer by its option that goes beyond the system's limit, or by `set`.
fn set_largest(
    (buffer, forced): (&str, Option<OptionName>),
    socket: BorrowedSocket<'_>,
    bytes: usize,
    set: fn(&Socket, usize) -> io::Result<()>,
    get: fn(&Socket) -> io::Result<usize>,
) -> io::Result<usize> {
    // The option is a C int. Linux accepts at most half of its range.
    let bytes = bytes.min(i32::MAX as usize / 2);
    let handle = SockRef::from(&socket);
    let size = || get(&handle).map(|size| size / numbers::BUFFER_FACTOR);
    let forced = sys::set_option(socket, forced, bytes as i32).and_then(|()| size()).ok();
    // gVisor accepts SO_SNDBUFFORCE without effect.
    let in_force = match forced.filter(|size| *size == bytes) {
        Some(size) => size,
        None => {
            largest(bytes, |bytes| set(&handle, bytes))?;
            size()?
        }
    };
    if in_force < bytes {
        events::small_buffer(buffer, bytes, in_force);
    }
    Ok(in_force)
}

/// Sets the largest size that the system accepts, up to `wanted`. It accepts every size below an accepted one.
fn largest(wanted: usize, mut set: impl FnMut(usize) -> io::Result<()>) -> io::Result<()> {
    let Err(error) = set(wanted) else { return Ok(()) };
    let (mut accepted, mut rejected) = (0, wanted);
    while rejected - accepted > 1 {
        let middle = accepted + (rejected - accepted) / 2;
        match set(middle) {
            Ok(()) => accepted = middle,
            Err(_) => rejected = middle,
        }
    }
    // The size accepted last is the largest.
    if accepted > 0 { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// XNU takes its limit in place of a larger size, but rejects that if the limit is in force already (`sbreserve` in
        /// bsd/kern/uipc_socket2.c).
        #[test]
        fn a_system_that_lowers_the_size_sets_its_limit(
            wanted in 1usize..5_000, limit in 1usize..5_000, before in 1usize..5_000,
        ) {
            let mut in_force = before.min(limit);
            let result = largest(wanted, |size| {
                if size > limit && in_force == limit {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                in_force = size.min(limit);
                Ok(())
            });
            prop_assert!(result.is_ok());
            prop_assert_eq!(in_force, wanted.min(limit));
        }

        /// The twin tries each size.
        #[test]
        fn the_largest_accepted_size_is_set(wanted in 0usize..5_000, limit in 0usize..5_000) {
            let (mut in_force, mut tries) = (None, 0);
            let result = largest(wanted, |size| {
                tries += 1;
                if size > limit {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                in_force = Some(size);
                Ok(())
            });
            let expected = (0..=wanted).rev().find(|size| *size <= limit);
            prop_assert_eq!(in_force, expected.filter(|size| *size > 0 || wanted == 0));
            prop_assert_eq!(result.is_ok(), in_force.is_some());
            prop_assert!(tries <= 15);
        }
    }
}

//! Busy polling: receives that poll the device instead of waiting for its interrupt.

use std::io;
use std::time::Duration;

use crate::sys::numbers;
use crate::sys::{self, AsSocket};

/// Sets how long a receive that finds nothing polls the device before it sleeps (`SO_BUSY_POLL`, Linux 3.11), in whole
/// microseconds. Zero turns busy polling off.
///
/// Busy polling saves the interrupt and the wake-up of the thread, and takes a whole CPU meanwhile. It works only on
/// devices with NAPI, and after the first packet: not on loopback, and on a veth only with GRO on. `poll` and `epoll`
/// poll the device, too, if `net.core.busy_poll` is set. The [guide](crate::guide::real_networks) has a measurement and
/// says when not to use it.
///
/// ```
/// use std::time::Duration;
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// if let Err(error) = mmsg::options::set_busy_poll(&socket, Duration::from_micros(50)) {
///     eprintln!("receives sleep at once: {error}");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `PermissionDenied` if the time is longer than before, without the capability `CAP_NET_ADMIN`; `InvalidInput` for
/// more than 2³¹ − 1 microseconds; `Unsupported` on other platforms than Linux and Android; else the system's error.
#[doc(alias = "SO_BUSY_POLL")]
pub fn set_busy_poll(socket: &impl AsSocket, time: Duration) -> io::Result<()> {
    let time = i32::try_from(time.as_micros()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("busy polling for {time:?}: at most 2147483647 us"),
        )
    })?;
    sys::set_option(sys::borrow(socket), numbers::BUSY_POLL, time)
}

/// Sets whether the kernel leaves the device to busy polling while the program keeps polling (`SO_PREFER_BUSY_POLL`,
/// Linux 5.11).
///
/// Otherwise interrupts also serve a busy device, and take packets away from the polling thread. The option needs two
/// settings of the device, `/sys/class/net/DEV/napi_defer_hard_irqs` and `gro_flush_timeout`. The second limits how
/// long packets wait after the program has stopped polling.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// if let Err(error) = mmsg::options::set_prefer_busy_poll(&socket, true) {
///     eprintln!("interrupts as usual: {error}");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `PermissionDenied` for `true` without the capability `CAP_NET_ADMIN`; `Unsupported` on other platforms than
/// Linux and Android; else the system's error.
#[doc(alias = "SO_PREFER_BUSY_POLL")]
pub fn set_prefer_busy_poll(socket: &impl AsSocket, on: bool) -> io::Result<()> {
    sys::set_option(sys::borrow(socket), numbers::PREFER_BUSY_POLL, on.into())
}

/// Sets the maximum number of packets that one round of busy polling takes from the device (`SO_BUSY_POLL_BUDGET`,
/// Linux 5.11). The default is 8, and 0 restores it.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// if let Err(error) = mmsg::options::set_busy_poll_budget(&socket, 64) {
///     eprintln!("8 packets a round: {error}");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `PermissionDenied` for more than before, without the capability `CAP_NET_ADMIN`; `Unsupported` on other
/// platforms than Linux and Android; else the system's error.
#[doc(alias = "SO_BUSY_POLL_BUDGET")]
pub fn set_busy_poll_budget(socket: &impl AsSocket, packets: u16) -> io::Result<()> {
    sys::set_option(sys::borrow(socket), numbers::BUSY_POLL_BUDGET, packets.into())
}

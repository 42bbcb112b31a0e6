//! Fragmentation, and the MTU of the path.

use std::io;

use crate::sys::{self, AsSocket, numbers};

/// What happens to a datagram that is longer than an MTU on its path.
///
/// | setting | IPv4's don't-fragment bit | longer than the path MTU known here | longer than this host's link |
/// |---|---|---|---|
/// | `Allow` | clear | fragmented by this host | fragmented by this host |
/// | `Local` | set, unless fragmented | fragmented by this host | fragmented by this host |
/// | `Never` | set | `EMSGSIZE` | `EMSGSIZE` |
/// | `Probe` | set | sent as it is | `EMSGSIZE` |
///
/// IPv6 has no such bit, since routers never fragment it; the other columns hold. [`path_mtu`] is the MTU
/// known here; [`Event::TooBig`](crate::error_queue::Event::TooBig) reports a new one.
///
/// ```
/// use mmsg::options::Fragmentation;
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// // As QUIC needs it (RFC 9000, section 14).
/// let may_fragment = Fragmentation::Probe.set(&socket).is_err();
/// # assert!(!may_fragment || !cfg!(target_os = "linux"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Platforms
///
/// - Linux, Android: all four (`IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`). `Local` is the system's default.
/// - macOS, FreeBSD (`IP_DONTFRAG`, `IPV6_DONTFRAG`); NetBSD, OpenBSD for IPv6: there are two settings: `Never` and
///   `Probe` are one, `Allow` and `Local` the other. IPv4 destinations of a dual-stack socket may keep their setting.
/// - Windows: all four, with Linux's options. `Local` leaves it to the system (`IP_PMTUDISC_NOT_SET`).
#[doc(alias("IP_MTU_DISCOVER", "IPV6_MTU_DISCOVER", "IP_DONTFRAG", "IPV6_DONTFRAG"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fragmentation {
    /// Routers and this host may fragment (`IP_PMTUDISC_DONT`).
    #[doc(alias = "IP_PMTUDISC_DONT")]
    Allow,
    /// This host may fragment, routers may not: they report their MTU (`IP_PMTUDISC_WANT`).
    #[doc(alias = "IP_PMTUDISC_WANT")]
    Local,
    /// Nobody may fragment (`IP_PMTUDISC_DO`).
    #[doc(alias = "IP_PMTUDISC_DO")]
    Never,
    /// Nobody may fragment, and the path MTU known here is ignored, so that the program can probe the path's MTU
    /// (`IP_PMTUDISC_PROBE`).
    #[doc(alias = "IP_PMTUDISC_PROBE")]
    Probe,
}

impl Fragmentation {
    /// Sets this on the socket, for both families if the socket carries both.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the platform has no such option for the socket's family; else the system's error.
    pub fn set(self, socket: &(impl AsSocket + ?Sized)) -> io::Result<()> {
        let socket = sys::borrow(socket);
        let families = sys::families(socket)?;
        let value = numbers::FRAGMENTATION[self as usize].to_ne_bytes();
        let set = |name| sys::set_option_checked(socket, name, &value);
        match (families.v4, families.v6) {
            (true, false) => set(numbers::FRAGMENTATION_V4),
            (false, true) => set(numbers::FRAGMENTATION_V6),
            (false, false) => set(None),
            (true, true) => {
                set(numbers::FRAGMENTATION_V6)?;
                match set(numbers::FRAGMENTATION_V4) {
                    Err(error) if !sys::is_about_the_option(&error) => Err(error),
                    // Some systems lack the option, or have no IPv4 options on IPv6 sockets.
                    _ => Ok(()),
                }
            }
        }
    }
}

/// The path MTU to the peer of a connected socket, as this host knows it, in bytes with the IP header (`IP_MTU`,
/// `IPV6_MTU`). The longest UDP payload that is not fragmented is 28 bytes shorter over IPv4 and 48 over IPv6.
///
/// The path MTU is the link's MTU until a router reports a smaller one, which is valid for some minutes. With
/// [`Fragmentation::Probe`] the host ignores such reports when it sends. For the destinations of an unconnected socket,
/// read [`Event::TooBig`](crate::error_queue::Event::TooBig) from the error queue.
///
/// ```
/// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// socket.connect(socket.local_addr()?)?;
/// if let Ok(mtu) = mmsg::options::path_mtu(&socket) {
///     println!("up to {} bytes leave unfragmented", mtu - 28);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `NotConnected`; `Unsupported` on Apple's systems and the BSDs; else the system's error.
#[doc(alias("IP_MTU", "IPV6_MTU"))]
pub fn path_mtu(socket: &(impl AsSocket + ?Sized)) -> io::Result<u32> {
    let socket = sys::borrow(socket);
    let Some(peer) = sys::peer(socket) else { return Err(io::ErrorKind::NotConnected.into()) };
    let name = if peer.ip().to_canonical().is_ipv4() { numbers::MTU_V4 } else { numbers::MTU_V6 };
    let mtu = sys::option(socket, name)?;
    Ok(u32::try_from(mtu).unwrap_or(0))
}

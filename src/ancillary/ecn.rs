//! Explicit congestion notification (ECN).

use crate::sys::{self, AsSocket};

/// Explicit congestion notification: the low two bits of the TOS byte or traffic class
/// (RFC 3168, section 5).
///
/// ```
/// use mmsg::{Ecn, SendMeta};
/// assert_eq!(Ecn::from_tos(0b1011), Ecn::Ce);
/// assert_eq!(SendMeta::new().with_ecn(Ecn::Ect0).tos, Some(0b10));
/// ```
#[doc(alias = "ECN")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not use ECN.
    #[default]
    NotEct = 0b00,
    /// ECN-capable transport, codepoint 1 (L4S, RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable transport, codepoint 0, which QUIC sends (RFC 9000, section 13.4).
    Ect0 = 0b10,
    /// Congestion experienced, as marked by a router.
    Ce = 0b11,
}

impl Ecn {
    /// Whether the ECN bits and TOS of messages leave with them on this socket, as far as is known.
    ///
    /// Some Android kernels reject a message for its TOS byte or traffic class (`EINVAL`, `EIO`). Such a
    /// message is sent without it in the same call, and so are all further ones on the socket, from
    /// whichever descriptor. From then on the result is false: a QUIC stack should stop to count on ECN. Source
    /// address and interface are never left out.
    ///
    /// Linux and Android remember 64 such sockets. On other platforms the result is always true, and each message is
    /// tried with its TOS. On OpenBSD and NetBSD over IPv4, which have no such option, the send fails (`Unsupported`).
    ///
    /// ```
    /// use mmsg::{BatchSocket, Ecn, SendMsg};
    /// let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let msg = SendMsg::to(socket.local_addr()?, b"hello");
    /// socket.send_batch(&[msg.with_ecn(Ecn::Ect0)])?;
    /// assert!(Ecn::is_sent(&socket));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_sent(socket: &impl AsSocket) -> bool {
        !sys::rejects_tos(sys::borrow(socket))
    }

    /// The low two bits of a TOS byte or traffic class.
    #[must_use]
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// This TOS byte or traffic class, by default 0, with these bits.
    #[inline]
    pub(super) const fn in_tos(self, tos: Option<u8>) -> u8 {
        let rest = match tos {
            Some(tos) => tos & !0b11,
            None => 0,
        };
        rest | self as u8
    }
}

//! Explicit congestion notification (ECN).

/// Explicit congestion notification: the low two bits of the TOS byte or traffic class
/// (RFC 3168, section 5).
///
/// ```
/// use mmsg::{Ecn, SendMsg};
/// assert_eq!(Ecn::from_tos(0b1011), Ecn::Ce);
/// assert_eq!(SendMsg::new(b"hello").with_ecn(Ecn::Ect0).meta().tos, Some(0b10));
/// ```
#[doc(alias("ECN", "EcnCodepoint"))]
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
}

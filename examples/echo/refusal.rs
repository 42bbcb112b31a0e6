//! What an error of a send means for the datagram at hand.

use std::io;

/// What to do with a datagram that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The socket takes none now: it waits.
    Later,
    /// The error is about a datagram sent before, whose destination did not want it. The system
    /// reports it in the place of the next send: this one is innocent, and sent again.
    OfAnother,
    /// This one cannot be sent: forbidden, no route, too long, a source that is no destination.
    Final,
}

impl Refusal {
    pub fn of(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            // TimedOut is what Windows calls the end of a write timeout.
            Kind::WouldBlock | Kind::TimedOut | Kind::Interrupted => Self::Later,
            Kind::ConnectionRefused | Kind::ConnectionReset => Self::OfAnother,
            _ => Self::Final,
        }
    }
}

/// Whether an error of a receive says only that nothing came while it waited.
pub fn is_silence(error: &io::Error) -> bool {
    Refusal::of(error) == Refusal::Later
}

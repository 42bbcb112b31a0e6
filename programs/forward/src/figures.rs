//! Counters of both directions.

use std::fmt;

/// Datagrams in one direction. Each received datagram is forwarded, dropped for one of the reasons, or still waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direction {
    pub received: u64,
    pub forwarded: u64,
    /// The queue was full.
    pub queue_full: u64,
    /// The system returned an error for it.
    pub rejected: u64,
    /// It had no session, and none could be opened.
    pub no_session: u64,
    /// It cannot be forwarded: it was truncated, had no source, or came from an upstream or the program itself.
    pub unfit: u64,
    /// Still in a queue when its session or the program ended.
    pub abandoned: u64,
    /// Dropped by the system before they were received, where the system counts them. Not part of `received`.
    pub missed: u64,
    /// How often a socket became full.
    pub blocked: u64,
    /// Errors about earlier datagrams, for example if the upstream's port is closed.
    pub errors: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub to_upstreams: Direction,
    pub to_clients: Direction,
    /// Sessions opened, most open at once, closed for being idle, to make room for others, and because an upstream refused.
    pub begun: u64,
    pub max_open: usize,
    pub idle: u64,
    pub evicted: u64,
    pub refused: u64,
}

impl Direction {
    pub fn dropped(&self) -> u64 {
        self.queue_full + self.rejected + self.no_session + self.unfit + self.abandoned
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received, forwarded, queue_full, rejected, no_session, .. } = self;
        let Self { unfit, abandoned, missed, blocked, errors, .. } = self;
        let dropped = self.dropped();
        write!(
            f,
            "received {received}, forwarded {forwarded}, dropped {dropped} (queue full \
             {queue_full}, rejected {rejected}, no session {no_session}, unfit {unfit}, abandoned \
             {abandoned}), missed {missed}, blocked {blocked}, errors {errors}"
        )
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to_upstreams, to_clients, begun, max_open, idle, evicted, refused } = self;
        writeln!(f, "to upstreams: {to_upstreams}")?;
        writeln!(f, "to clients: {to_clients}")?;
        writeln!(
            f,
            "sessions: begun {begun}, most at once {max_open}, ended idle {idle}, evicted {evicted}, \
             refused {refused}"
        )
    }
}

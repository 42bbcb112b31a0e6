//! Shared by all transports: the zone, and the protection of others from this server.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::base::Serial;
use domain::base::opt::Cookie as CookieOption;
use domain::dep::octseq::Parser;

use crate::answer::answer;
use crate::limit::{Limiter, Verdict};
use crate::query::Query;
use crate::reply::{Cookie, Reply, WITHOUT_EDNS};
use crate::zone::Zone;

/// Limits of a server cookie's age, past and future, in seconds (RFC 9018, section 4.3).
const COOKIE_AGE: (u32, u32) = (3600, 300);

pub struct Responder {
    zone: RwLock<Zone>,
    limiter: Limiter,
    /// The longest answer over UDP.
    max_udp: usize,
    /// The key for cookies, new in each run.
    secret: [u8; 16],
    pub counts: Counts,
}

/// Counts of events that are rare on a healthy server.
#[derive(Default)]
pub struct Counts {
    /// Receives that failed, but for timeouts.
    pub receive_errors: AtomicU64,
    /// Answers that the system rejected.
    pub send_errors: AtomicU64,
    /// When such an error was said, in seconds since 1970.
    said: AtomicU64,
    pub tcp_queries: AtomicU64,
}

impl Responder {
    pub fn new(zone: Zone, rate: u32, max_udp: u16) -> Result<Self, String> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| format!("no random bytes: {error}"))?;
        let (zone, max_udp, counts) = (zone.into(), usize::from(max_udp), Counts::default());
        Ok(Self { zone, limiter: Limiter::new(rate), max_udp, secret, counts })
    }

    /// The zone, for as long as a batch is answered: `replace` waits for that.
    pub fn zone(&self) -> RwLockReadGuard<'_, Zone> {
        self.zone.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn replace(&self, zone: Zone) {
        let mut current = self.zone.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *current, zone);
        drop(current);
        // Takes long.
        drop(old);
        return_memory();
    }

    /// The longest answer over UDP.
    pub fn max_udp(&self) -> usize {
        self.max_udp
    }

    /// Writes the answer to a datagram into `out`, which has space for `max_udp` bytes, and returns its length;
    /// `None` if there is no answer.
    pub fn answer_udp(
        &self,
        zone: &Zone,
        datagram: &[u8],
        from: SocketAddr,
        out: &mut [u8],
    ) -> Option<usize> {
        let query = Query::read(datagram)?;
        let (cookie, is_known) = self.cookie(&query, from.ip());
        let size = query.edns.map_or(WITHOUT_EDNS, |edns| edns.size.into());
        let out = &mut out[..size.clamp(WITHOUT_EDNS, self.max_udp)];
        // A client that returns our cookie owns its address.
        let verdict = if is_known { Verdict::Answer } else { self.limiter.count(from.ip()) };
        match verdict {
            Verdict::Answer => Some(answer(zone, &query, cookie, out)),
            Verdict::Truncate => Some(Reply::new(&query, cookie, out).finish_truncated()),
            Verdict::Drop => None,
        }
    }

    /// Answers a message over TCP, whose client has proved its address.
    pub fn answer_tcp(&self, message: &[u8], from: IpAddr, out: &mut [u8]) -> Option<usize> {
        let query = Query::read(message)?;
        self.counts.tcp_queries.fetch_add(1, Relaxed);
        let (cookie, _) = self.cookie(&query, from);
        Some(answer(&self.zone(), &query, cookie, out))
    }

    /// The cookie for the answer, and whether the query had a valid one of ours.
    fn cookie(&self, query: &Query<'_>, from: IpAddr) -> (Option<Cookie>, bool) {
        let Some(sent) =
            query.cookie.and_then(|bytes| CookieOption::parse(&mut Parser::from_ref(bytes)).ok())
        else {
            return (None, false);
        };
        let from = from.to_canonical();
        let now = seconds() as u32;
        let is_fresh = |made: Serial| {
            let age = now.wrapping_sub(made.into_int());
            age <= COOKIE_AGE.0 || age.wrapping_neg() <= COOKIE_AGE.1
        };
        let is_known = sent.check_server_hash(from, &self.secret, is_fresh);
        let reply = sent.create_response(Serial(now), from, &self.secret);
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(reply.client().as_ref());
        cookie[8..].copy_from_slice(reply.server().map_or(&[], |server| server.as_ref()));
        (Some(cookie), is_known)
    }
}

/// Returns the old zone's memory to the system. glibc by itself would keep what lies below other allocations, the new
/// zone among them.
#[cfg(target_env = "gnu")]
fn return_memory() {
    // SAFETY: the call takes a number, and leaves every allocation where it is.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn return_memory() {}

/// Seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Counts {
    /// Counts a failed receive, and says why at most once in a second.
    pub fn receive_failed(&self, error: &io::Error) {
        let count = 1 + self.receive_errors.fetch_add(1, Relaxed);
        let now = seconds();
        if self.said.fetch_max(now, Relaxed) < now {
            let _ = writeln!(io::stderr(), "error: cannot receive: {error} ({count} so far)");
        }
    }
}

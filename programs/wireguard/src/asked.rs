//! The address of this host at which each remote asked the node, to answer from there.
//!
//! gotatun does not say which datagrams were authentic, so a forged one counts as well:
//!
//! - Whoever forges a peer's address and port makes the node send to that peer from another of its addresses, until the
//!   peer's next datagram arrives. An address that this host does not have is out of reach.
//! - A flood from many forged sources makes the node forget where other strangers asked: it may answer their first
//!   handshake from its default address, and they try again. Peers are out of reach, since the node sends to them.
//! - Whoever knows the node's public key, and has it send cookies to [REMOTES] forged sources between two datagrams to a
//!   peer, makes it forget that peer's, until the peer's next datagram arrives.

use std::hash::RandomState;
use std::mem;
use std::net::SocketAddr;

use hashlink::LruCache;
use mmsg::SendMeta;

/// Remotes of each kind, more than the datagrams that wait in gotatun. The one used longest ago is forgotten first.
const REMOTES: usize = 8192;

type Table<T> = LruCache<SocketAddr, T, RandomState>;

pub struct Asked {
    /// Remotes that the node has sent to.
    known: Table<Known>,
    /// Others, which it may answer.
    strangers: Table<SendMeta>,
}

struct Known {
    from: SendMeta,
    /// Whether the node has begun a handshake since the last datagram from there.
    begun: bool,
}

impl Default for Asked {
    fn default() -> Self {
        let hasher = RandomState::new;
        let (known, strangers) =
            (Table::with_hasher(REMOTES, hasher()), Table::with_hasher(REMOTES, hasher()));
        Self { known, strangers }
    }
}

impl Asked {
    /// Notes a datagram from `remote`. Its reply would have these options.
    pub fn heard(&mut self, remote: SocketAddr, from: SendMeta) {
        match self.known.get_mut(&remote) {
            Some(known) => *known = Known { from, begun: false },
            None => _ = self.strangers.insert(remote, from),
        }
    }

    /// The options of datagrams to `remote`, of which one may begin a handshake.
    pub fn reply(&mut self, remote: SocketAddr, begins: bool) -> SendMeta {
        let Some(known) = self.known.get_mut(&remote) else {
            let from = self.strangers.remove(&remote).unwrap_or_default();
            self.known.insert(remote, Known { from, begun: begins });
            return from;
        };
        // Nobody answered the last handshake. The address may be why, after a change of routes: Linux forgets it, too.
        if begins && mem::replace(&mut known.begun, true) {
            known.from = SendMeta::new();
        }
        known.from
    }

    /// Forgets the address, which this host no longer has.
    pub fn forget(&mut self, remote: SocketAddr) {
        self.known.remove(&remote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(number: usize) -> SocketAddr {
        SocketAddr::from(((number as u32).to_be_bytes(), 7))
    }

    fn at(last: u8) -> SendMeta {
        SendMeta::new().with_source([192, 0, 2, last].into())
    }

    #[test]
    fn a_flood_of_strangers_moves_no_peer_and_memory_is_bounded() {
        let mut asked = Asked::default();
        asked.heard(remote(0), at(1));
        assert_eq!(asked.reply(remote(0), false), at(1));
        asked.heard(remote(1), at(1));
        for number in 2..3 * REMOTES {
            asked.heard(remote(number), at(2));
        }
        assert_eq!(asked.strangers.len(), REMOTES);
        // The oldest stranger is forgotten, the newest is not, and the peer stays.
        assert_eq!(asked.reply(remote(1), false), SendMeta::new());
        assert_eq!(asked.reply(remote(3 * REMOTES - 1), false), at(2));
        assert_eq!(asked.reply(remote(0), false), at(1));
        for number in 0..3 * REMOTES {
            asked.reply(remote(number), false);
        }
        assert_eq!(asked.known.len(), REMOTES);
    }

    #[test]
    fn a_second_handshake_without_an_answer_leaves_by_the_default_address() {
        let mut asked = Asked::default();
        asked.heard(remote(0), at(1));
        assert_eq!(asked.reply(remote(0), true), at(1));
        asked.heard(remote(0), at(2));
        assert_eq!([true, false].map(|begins| asked.reply(remote(0), begins)), [at(2); 2]);
        assert_eq!(
            [true, false].map(|begins| asked.reply(remote(0), begins)),
            [SendMeta::new(); 2]
        );
        asked.heard(remote(0), at(3));
        assert_eq!(asked.reply(remote(0), true), at(3));
    }
}

//! Many clients and many datagrams, each forwarded to the right place.

use std::net::UdpSocket;

use crate::kit::{Upstream, assert_all_forwarded, client, forward, stop};
use crate::running;

/// Clients with datagrams in flight, and datagrams of each: few enough to fit any socket's buffer, so that none may
/// be lost.
const GROUP: usize = 32;
const EACH: usize = 4;

/// Sends `per_client` datagrams from each of `count` clients and checks every reply.
fn exchange(count: usize, per_client: usize) {
    if !may_open(2 * count + 100) {
        return;
    }
    let upstreams: Vec<_> = (0..4).map(Upstream::start).collect();
    let addrs: Vec<_> = upstreams.iter().map(|upstream| upstream.addr).collect();
    let forward = forward("127.0.0.1:0", &addrs, &[]);
    let clients: Vec<_> = (0..count).map(|_| client(forward.addr)).collect();
    let mut seen = vec![None; count];
    for first in (0..per_client).step_by(EACH) {
        let numbers = first..per_client.min(first + EACH);
        for (group, clients) in clients.chunks(GROUP).enumerate() {
            let id = |i: usize| group * GROUP + i;
            for number in numbers.clone() {
                for (i, client) in clients.iter().enumerate() {
                    client.send(&data(id(i), number)).expect("loopback takes it");
                }
            }
            for (i, client) in clients.iter().enumerate() {
                receive(client, id(i), numbers.clone(), &mut seen[id(i)]);
            }
        }
    }
    let totals = stop(forward);
    let all = (count * per_client) as u64;
    assert_all_forwarded(&totals.to_upstreams, all);
    assert_all_forwarded(&totals.to_clients, all);
    assert!(totals.sessions.starts_with(&format!("sessions: begun {count}, ")), "{totals:?}");
}

/// Receives the replies to a client's datagrams, each once and all through one session. Their order may change: two
/// CPUs may overtake each other even on loopback.
fn receive(
    client: &UdpSocket,
    id: usize,
    numbers: std::ops::Range<usize>,
    session: &mut Option<[u8; 3]>,
) {
    let mut missing: Vec<_> = numbers.map(|number| data(id, number)).collect();
    while !missing.is_empty() {
        let mut back = [0; 64];
        let n = running::receive(client, &mut back).expect("it comes back");
        let (by, echo) = back[..n].split_first_chunk().expect("the upstream's mark and port");
        let found = missing.iter().position(|sent| sent == echo);
        missing.swap_remove(found.unwrap_or_else(|| panic!("not of client {id}: {echo:?}")));
        assert_eq!(session.get_or_insert(*by), by, "of client {id}: {echo:?}");
    }
}

fn data(id: usize, number: usize) -> [u8; 16] {
    let mut data = [0; 16];
    data[..8].copy_from_slice(&(id as u64).to_be_bytes());
    data[8..].copy_from_slice(&(number as u64).to_be_bytes());
    data
}

/// Raises the limit on open files for this process and the programs that it starts.
fn may_open(files: usize) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it writes an rlimit that outlives the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    if limit.rlim_cur >= files as libc::rlim_t {
        return true;
    }
    limit.rlim_cur = (files as libc::rlim_t).min(limit.rlim_max);
    // SAFETY: it reads an rlimit that outlives the call.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0;
    let enough = raised && limit.rlim_cur >= files as libc::rlim_t;
    if !enough {
        crate::common::skip("a thousand clients", format_args!("only {} files", limit.rlim_max));
    }
    enough
}

#[test]
fn a_hundred_thousand_datagrams_of_a_thousand_clients() {
    exchange(1000, 100);
}

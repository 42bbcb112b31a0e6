//! Answers questions from the zone: bytes in, bytes out.

use std::ptr;

use crate::query::{HEADER, LONGEST_NAME, Query, Wrong};
use crate::reply::{Cookie, Reply, Section};
use crate::zone::{CNAME, DNAME, Found, Node, RrSet, Zone};

/// QTYPE "*": records of all types.
const ANY: u16 = 255;
/// IXFR and AXFR, which need TCP.
const TRANSFERS: [u16; 2] = [251, 252];
const CLASS_IN: u16 = 1;
/// The maximum number of aliases to follow.
const MAX_ALIASES: usize = 8;
/// The aliases that were followed.
type Aliases<'z> = [Option<&'z RrSet>; MAX_ALIASES];

/// Writes the answer to a query into `out` and returns its length.
pub fn answer(zone: &Zone, query: &Query<'_>, cookie: Option<Cookie>, out: &mut [u8]) -> usize {
    let mut reply = Reply::new(query, cookie, out);
    let wrong = match query.wrong {
        None if query.question.is_empty() => None,
        None => look_up(zone, query, &mut reply).err(),
        wrong => wrong,
    };
    reply.finish(wrong)
}

fn look_up(zone: &Zone, query: &Query<'_>, reply: &mut Reply<'_>) -> Result<(), Wrong> {
    if query.class != CLASS_IN || TRANSFERS.contains(&query.ty) {
        return Err(Wrong::Refused);
    }
    follow(zone, query, reply, query.name.as_bytes(), HEADER, &mut [None; MAX_ALIASES])
}

/// Answers with the records of a name, which stands at the offset `at` in the message. `aliases` were followed to it.
fn follow<'n, 'z: 'n>(
    zone: &'z Zone,
    query: &Query<'_>,
    reply: &mut Reply<'_>,
    mut name: &'n [u8],
    mut at: usize,
    aliases: &mut Aliases<'z>,
) -> Result<(), Wrong> {
    let asked = query.name.as_bytes();
    loop {
        let found = zone.find(name, query.ty);
        if !matches!(found, Found::Cut(..) | Found::Outside) {
            reply.set_authoritative();
        }
        let (alias, owner) = match found {
            Found::Outside if reply.has_no_records() => return Err(Wrong::Refused),
            // The alias leads out of the zone; the client follows it from there.
            Found::Outside => return Ok(()),
            Found::Cut(servers, skip) => {
                refer(zone, reply, servers, at + skip);
                return Ok(());
            }
            Found::NoSuchName => {
                reply.set_name_error();
                deny(zone, asked, reply);
                return Ok(());
            }
            Found::Below(dname, skip) => (dname, at + skip),
            Found::Node(node) => match alias(node, query.ty) {
                None => {
                    give(zone, asked, node, query.ty, at, reply);
                    return Ok(());
                }
                Some(alias) => (alias, at),
            },
        };
        let again = aliases.iter().flatten().any(|seen| ptr::eq(*seen, alias));
        let Some(free) = aliases.iter_mut().find(|slot| slot.is_none()) else { return Ok(()) };
        if again || !reply.push(Section::Answer, owner, alias) {
            return Ok(());
        }
        *free = Some(alias);
        let Some(target) = alias.targets.first() else { return Ok(()) };
        if alias.ty == DNAME {
            let target = [&name[..owner - at], target].concat();
            return follow_below(zone, query, reply, alias.ttl(), &target, at, aliases);
        }
        (name, at) = (target, reply.len() - target.len());
    }
}

/// Goes on from a name below a DNAME record's, an alias of `target` (RFC 6672).
#[cold]
fn follow_below<'z>(
    zone: &'z Zone,
    query: &Query<'_>,
    reply: &mut Reply<'_>,
    ttl: u32,
    target: &[u8],
    at: usize,
    aliases: &mut Aliases<'z>,
) -> Result<(), Wrong> {
    if target.len() > LONGEST_NAME {
        return Err(Wrong::TooLong);
    }
    let alias = RrSet::new(CNAME, ttl, target);
    if !reply.push(Section::Answer, at, &alias) || [CNAME, ANY].contains(&query.ty) {
        return Ok(());
    }
    follow(zone, query, reply, target, reply.len() - target.len(), aliases)
}

/// The alias to follow in a search for records of type `ty`.
fn alias(node: &Node, ty: u16) -> Option<&RrSet> {
    if ty == CNAME || ty == ANY { None } else { node.get(CNAME) }
}

/// Writes the node's records of a type, or the SOA record if there are none. An ANY query gets only the shortest set
/// (RFC 8482, section 4.1), because attackers use ANY to get long answers sent to others.
fn give(zone: &Zone, asked: &[u8], node: &Node, ty: u16, at: usize, reply: &mut Reply<'_>) {
    let set = if ty == ANY { node.sets.iter().min_by_key(|set| set.len()) } else { node.get(ty) };
    match set {
        Some(set) => drop(reply.push(Section::Answer, at, set)),
        None => deny(zone, asked, reply),
    }
}

/// Writes the SOA record, which says how long the client may cache "no such record" (RFC 2308).
fn deny(zone: &Zone, asked: &[u8], reply: &mut Reply<'_>) {
    // The asked name is in the zone, so it ends with the zone's name.
    let apex = HEADER + asked.len() - zone.apex_len();
    reply.push(Section::Authority, apex, &zone.negative);
}

/// Refers to another zone: writes its name servers and their addresses.
fn refer(zone: &Zone, reply: &mut Reply<'_>, servers: &RrSet, at: usize) {
    let mut end = reply.len();
    if !reply.push(Section::Authority, at, servers) {
        return;
    }
    for (record, server) in servers.records.iter().zip(&servers.targets) {
        // The record ends with the server's name.
        end += 2 + record.len();
        for addresses in zone.addresses(server) {
            if !reply.push(Section::Additional, end - server.len(), addresses) {
                return;
            }
        }
    }
}

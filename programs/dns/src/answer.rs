//! Answers questions from the zone: bytes in, bytes out.

use std::ptr;

use crate::query::{Query, Wrong};
use crate::reply::{Cookie, Reply, Section};
use crate::zone::{CNAME, Found, Node, RrSet, Zone};

/// QTYPE "*": records of all types.
const ANY: u16 = 255;
/// IXFR and AXFR, which need TCP.
const TRANSFERS: [u16; 2] = [251, 252];
const CLASS_IN: u16 = 1;
/// The maximum number of aliases to follow.
const MAX_ALIASES: usize = 8;

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

fn look_up<'q>(
    zone: &'q Zone,
    query: &'q Query<'_>,
    reply: &mut Reply<'_, 'q>,
) -> Result<(), Wrong> {
    if query.class != CLASS_IN || TRANSFERS.contains(&query.ty) {
        return Err(Wrong::Refused);
    }
    let asked = query.name.as_bytes();
    let mut name = asked;
    let mut followed = [None; MAX_ALIASES];
    for slot in 0..=MAX_ALIASES {
        let found = zone.find(name, query.ty);
        if !matches!(found, Found::Cut(..) | Found::Outside) {
            reply.set_authoritative();
        }
        match found {
            Found::Outside if reply.has_no_records() => return Err(Wrong::Refused),
            // The alias leads out of the zone; the client follows it from there.
            Found::Outside => return Ok(()),
            Found::Cut(servers, skip) => {
                refer(zone, reply, servers, &name[skip..]);
                return Ok(());
            }
            Found::NoSuchName => {
                reply.set_name_error();
                deny(zone, asked, reply);
                return Ok(());
            }
            Found::Node(node) => match alias(node, query.ty) {
                None => {
                    give(zone, asked, node, query.ty, name, reply);
                    return Ok(());
                }
                Some(alias) => {
                    let again = followed.iter().flatten().any(|seen| ptr::eq(*seen, alias));
                    if slot == MAX_ALIASES || again || !reply.push(Section::Answer, name, alias) {
                        return Ok(());
                    }
                    followed[slot] = Some(alias);
                    let Some(target) = alias.targets.first() else { return Ok(()) };
                    name = target;
                }
            },
        }
    }
    Ok(())
}

/// The alias to follow in a search for records of type `ty`.
fn alias(node: &Node, ty: u16) -> Option<&RrSet> {
    if ty == CNAME || ty == ANY { None } else { node.get(CNAME) }
}

/// Writes the node's records of a type, or the SOA record if there are none. An ANY query gets only the shortest set
/// (RFC 8482, section 4.1), because attackers use ANY to get long answers sent to others.
fn give<'q>(
    zone: &'q Zone,
    asked: &'q [u8],
    node: &'q Node,
    ty: u16,
    name: &'q [u8],
    reply: &mut Reply<'_, 'q>,
) {
    let set = if ty == ANY { node.sets.iter().min_by_key(|set| set.len) } else { node.get(ty) };
    match set {
        Some(set) => drop(reply.push(Section::Answer, name, set)),
        None => deny(zone, asked, reply),
    }
}

/// Writes the SOA record, which says how long the client may cache "no such record" (RFC 2308).
fn deny<'q>(zone: &'q Zone, asked: &'q [u8], reply: &mut Reply<'_, 'q>) {
    // The asked name is in the zone, so it ends with the zone's name.
    let apex = &asked[asked.len() - zone.apex_len()..];
    reply.push(Section::Authority, apex, &zone.negative);
}

/// Refers to another zone: writes its name servers and their addresses.
fn refer<'q>(zone: &'q Zone, reply: &mut Reply<'_, 'q>, servers: &'q RrSet, child: &'q [u8]) {
    if !reply.push(Section::Authority, child, servers) {
        return;
    }
    for server in &servers.targets {
        for addresses in zone.addresses(server) {
            if !reply.push(Section::Additional, server, addresses) {
                return;
            }
        }
    }
}

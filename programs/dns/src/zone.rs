//! The zone, stored in the form in which it is sent.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;

use foldhash::fast::RandomState;

use crate::query::{HEADER, LONGEST_NAME};
use crate::words::{WireName, quoted};
use crate::zone_file::{self, Record};

pub const CNAME: u16 = 5;
pub const NS: u16 = 2;
pub const SOA: u16 = 6;
/// Delegation signer: belongs to the child's name but is the parent's to answer.
const DS: u16 = 43;
/// The space for records in a message after header, question, and EDNS with a cookie.
const LONGEST_SET: usize = 65_535 - HEADER - (LONGEST_NAME + 4) - (11 + 28);

pub struct Zone {
    apex: WireName,
    /// All names that exist, including those that have no records but names below them.
    /// A fast hash will do: attackers ask for names, but add none.
    pub nodes: HashMap<WireName, Node, RandomState>,
    /// The SOA record, with the time that negative answers may be cached (RFC 2308) as its TTL.
    pub negative: RrSet,
    has_cuts: bool,
}

/// The records of one name.
#[derive(Default)]
pub struct Node {
    pub sets: Vec<RrSet>,
    /// Whether another zone starts here.
    is_cut: bool,
}

/// The records of one name and type.
pub struct RrSet {
    pub ty: u16,
    ttl: u32,
    /// Length of its records in a message.
    pub len: usize,
    /// Each starts at its type and is ready to send; the sender writes the name before it.
    pub records: Vec<Box<[u8]>>,
    /// For CNAME and NS: the names that the records point to and end with.
    pub targets: Vec<WireName>,
}

/// The result of looking up a name.
pub enum Found<'z> {
    Node(&'z Node),
    /// Another zone is responsible. Its name starts at this byte of the name looked up.
    Cut(&'z RrSet, usize),
    NoSuchName,
    Outside,
}

impl Zone {
    /// Reads a zone file.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text =
            fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::parse(&text, path)
    }

    /// Reads a zone from a file's text. The path is for errors, for the first origin and for the files that it includes.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, String> {
        let records = zone_file::read(text, path)?;
        let soa = records
            .iter()
            .find(|record| record.ty == SOA)
            .ok_or_else(|| format!("{}: expected an SOA record", path.display()))?;
        // Its last field is the time for negative answers.
        let (_, minimum) = soa.data.split_last_chunk().ok_or_else(|| soa.wrong("no data"))?;
        let ttl = soa.ttl.min(u32::from_be_bytes(*minimum));
        let no_servers = soa.wrong("expected an NS record of the zone itself");
        let mut zone = Self {
            apex: soa.owner.clone(),
            nodes: HashMap::default(),
            negative: RrSet::new(SOA, ttl),
            has_cuts: false,
        };
        zone.negative.push(&soa.data)?;
        // By value, so that each frees its memory.
        for record in records {
            zone.insert(&record).map_err(|reason| record.wrong(&reason))?;
        }
        match zone.nodes[&zone.apex].get(NS) {
            Some(_) => Ok(zone),
            None => Err(no_servers),
        }
    }

    fn insert(&mut self, record: &Record) -> Result<(), String> {
        let outside =
            || format!("expected a name in the zone, not {}", quoted(&readable(&record.owner)));
        let below = self.depth(&record.owner).ok_or_else(outside)?;
        if record.ty == SOA && below > 0 {
            return Err("expected one SOA record".into());
        }
        let is_cut = record.ty == NS && below > 0;
        self.has_cuts |= is_cut;
        // The names between this one and the apex exist too.
        for at in suffixes(&record.owner).take(below).skip(1) {
            self.nodes.entry(record.owner[at..].into()).or_default();
        }
        let node = self.nodes.entry(record.owner.clone()).or_default();
        node.is_cut |= is_cut;
        Ok(node.insert(record)?)
    }

    /// The number of labels below the apex; `None` for a name outside the zone.
    fn depth(&self, name: &[u8]) -> Option<usize> {
        suffixes(name).position(|at| name[at..] == *self.apex)
    }

    /// Looks up records of type `ty` (RFC 1034, section 4.3.2).
    pub fn find(&self, name: &[u8], ty: u16) -> Found<'_> {
        let Some(depth) = self.depth(name) else { return Found::Outside };
        if self.has_cuts
            && let Some(cut) = self.cut_above(name, depth, ty)
        {
            return cut;
        }
        if let Some(node) = self.nodes.get(name) {
            return Found::Node(node);
        }
        self.wildcard(name).map_or(Found::NoSuchName, Found::Node)
    }

    /// The cut above a name, where another zone starts.
    fn cut_above(&self, name: &[u8], depth: usize, ty: u16) -> Option<Found<'_>> {
        let mut cut = None;
        for at in suffixes(name).take(depth) {
            if at == 0 && ty == DS {
                continue;
            }
            let node = self.nodes.get(&name[at..]).filter(|node| node.is_cut);
            // The loop goes upward, so the highest cut wins.
            cut = node.and_then(|node| node.get(NS)).map(|set| Found::Cut(set, at)).or(cut);
        }
        cut
    }

    /// The wildcard for a missing name: the one directly below the closest existing name above it (RFC 4592).
    fn wildcard(&self, name: &[u8]) -> Option<&Node> {
        let exists = |at: &usize| self.nodes.contains_key(&name[*at..]);
        let encloser = &name[suffixes(name).skip(1).find(exists)?..];
        let mut key = [0; 2 + 255];
        key[..2].copy_from_slice(b"\x01*");
        let key = key.get_mut(..2 + encloser.len())?;
        key[2..].copy_from_slice(encloser);
        self.nodes.get(&*key)
    }

    /// Length of the apex's name.
    pub fn apex_len(&self) -> usize {
        self.apex.len()
    }

    /// The addresses of a name server, for a referral.
    pub fn addresses(&self, name: &[u8]) -> impl Iterator<Item = &RrSet> {
        let node = self.nodes.get(name);
        node.into_iter().flat_map(|node| [1, 28].map(|ty| node.get(ty))).flatten()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sets = self.nodes.values().flat_map(|node| &node.sets);
        let records: usize = sets.map(|set| set.records.len()).sum();
        write!(f, "zone {}, {} names, {records} records", readable(&self.apex), self.nodes.len())
    }
}

impl Node {
    pub fn get(&self, ty: u16) -> Option<&RrSet> {
        self.sets.iter().find(|set| set.ty == ty)
    }

    fn insert(&mut self, record: &Record) -> Result<(), &'static str> {
        let Record { ty, ttl, .. } = *record;
        // Alone, so first.
        let has_alias = ty == CNAME || self.sets.first().is_some_and(|set| set.ty == CNAME);
        if let Some(set) = self.sets.iter_mut().find(|set| set.ty == ty) {
            // A record that is there twice is one.
            if set.records.iter().any(|known| known[10..] == record.data) {
                return Ok(());
            }
            if matches!(ty, SOA | CNAME) {
                return Err("expected one such record of a name");
            }
            return set.push(&record.data);
        }
        if has_alias && !self.sets.is_empty() {
            return Err("expected no other records of a name with a CNAME record");
        }
        let mut set = RrSet::new(ty, ttl);
        set.push(&record.data)?;
        // Most names have few sets, and most sets one record: a vector's first step would be four.
        self.sets.reserve_exact(1);
        self.sets.push(set);
        Ok(())
    }
}

impl RrSet {
    fn new(ty: u16, ttl: u32) -> Self {
        Self { ty, ttl, len: 0, records: Vec::with_capacity(1), targets: Vec::new() }
    }

    /// Adds a record. As in BIND, all records have the TTL of the first (RFC 2181, section 5.2).
    fn push(&mut self, data: &[u8]) -> Result<(), &'static str> {
        let (class, mut record) = (1_u16, Vec::with_capacity(10 + data.len()));
        record.extend([self.ty, class].map(u16::to_be_bytes).as_flattened());
        record.extend(self.ttl.to_be_bytes());
        // Fits: the reader of zone files limits it.
        record.extend((data.len() as u16).to_be_bytes());
        record.extend(data);
        self.len += 2 + record.len();
        if self.len > LONGEST_SET {
            return Err("expected a set of records that fits into a message");
        }
        self.records.push(record.into());
        if matches!(self.ty, CNAME | NS) {
            self.targets.push(data.to_ascii_lowercase().into());
        }
        Ok(())
    }
}

/// A name as text.
fn readable(name: &[u8]) -> String {
    let labels = suffixes(name).map(|at| name[at + 1..][..name[at].into()].escape_ascii());
    let text: String = labels.map(|label| format!("{label}.")).collect();
    // The last label is the root's, which is empty.
    text[..text.len().saturating_sub(1).max(1)].to_owned()
}

/// The offsets in a name at which it and the names above it start; the root comes last.
pub fn suffixes(name: &[u8]) -> impl Iterator<Item = usize> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let at = next?;
        let label = usize::from(*name.get(at)?);
        next = (label > 0).then_some(at + 1 + label);
        Some(at)
    })
}

//! The zone, parsed by hickory and stored in the form in which it is sent.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use hickory_proto::rr::{DNSClass, Name, RData, RecordSet, RecordType};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, EncodeMode};
use hickory_proto::serialize::txt::Parser;

pub const CNAME: u16 = 5;
const NS: u16 = 2;
/// Delegation signer: belongs to the child's name but is the parent's to answer.
const DS: u16 = 43;

/// A name in wire format and lower case.
type WireName = Box<[u8]>;

pub struct Zone {
    apex: WireName,
    /// All names that exist, including those that have no records but names below them.
    nodes: HashMap<WireName, Node>,
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
    /// Reads a master file.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let origin = Name::from_ascii(format!("{stem}.")).ok();
        Self::parse(&text, Some(path), origin)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    pub fn parse(text: &str, path: Option<&Path>, origin: Option<Name>) -> Result<Self, String> {
        let parser = Parser::new(text, path.map(Path::to_path_buf), origin);
        let (_, sets) = parser.parse().map_err(|error| error.to_string())?;
        let mut zone = Self::begin(sets.values())?;
        for set in sets.values() {
            zone.insert(set)?;
        }
        zone.check()?;
        Ok(zone)
    }

    /// A zone with only its apex, the owner of the SOA record.
    fn begin<'s>(mut sets: impl Iterator<Item = &'s RecordSet> + Clone) -> Result<Self, String> {
        let mut soas = sets.clone().filter(|set| set.record_type() == RecordType::SOA);
        let (Some(set), None) = (soas.next(), soas.next()) else {
            return Err("not one SOA record, as a zone has".into());
        };
        let record = set.records_without_rrsigs().next();
        let Some(RData::SOA(soa)) = record.map(|record| record.data()) else {
            return Err("the SOA record has no data".into());
        };
        // hickory's parser gives the SOA its "expire" value as TTL; the TTL of the NS records is used instead.
        let servers = sets
            .find(|other| other.record_type() == RecordType::NS && other.name() == set.name())
            .ok_or("no NS record of the zone itself")?;
        let soa_set = RrSet::encode(set, servers.ttl())?;
        let negative = RrSet::encode(set, servers.ttl().min(soa.minimum()))?;
        let apex = wire_name(set.name());
        let node = Node { sets: vec![soa_set], is_cut: false };
        let nodes = HashMap::from([(apex.clone(), node)]);
        Ok(Self { apex, nodes, negative, has_cuts: false })
    }

    fn insert(&mut self, set: &RecordSet) -> Result<(), String> {
        let name = wire_name(set.name());
        let Some(below) = self.depth(&name) else {
            return Err(format!("{} is not in the zone", set.name()));
        };
        if set.dns_class() != DNSClass::IN {
            return Err(format!("{} is not of class IN", set.name()));
        }
        if set.record_type() == RecordType::SOA {
            return Ok(());
        }
        let encoded = RrSet::encode(set, set.ttl())?;
        let is_cut = encoded.ty == NS && name != self.apex;
        self.has_cuts |= is_cut;
        // The names between this one and the apex exist too.
        for at in suffixes(&name).take(below).skip(1) {
            self.nodes.entry(name[at..].into()).or_default();
        }
        let node = self.nodes.entry(name).or_default();
        node.sets.push(encoded);
        node.is_cut |= is_cut;
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let is_alias = |node: &Node| node.get(CNAME).is_some();
        match self.nodes.values().find(|node| is_alias(node) && node.sets.len() > 1) {
            Some(_) => Err("a name with a CNAME has other records".into()),
            None => Ok(()),
        }
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

impl Node {
    pub fn get(&self, ty: u16) -> Option<&RrSet> {
        self.sets.iter().find(|set| set.ty == ty)
    }
}

impl RrSet {
    /// Length of its records without their names.
    pub fn len(&self) -> usize {
        self.records.iter().map(|record| record.len()).sum()
    }

    fn encode(set: &RecordSet, ttl: u32) -> Result<Self, String> {
        let ty = u16::from(set.record_type());
        let (mut records, mut targets) = (Vec::new(), Vec::new());
        for record in set.records_without_rrsigs() {
            let data = encode_data(record.data())?;
            let len = u16::try_from(data.len()).map_err(|_| "a record is too long")?;
            let mut bytes = Vec::new();
            bytes.extend(ty.to_be_bytes());
            bytes.extend(u16::from(DNSClass::IN).to_be_bytes());
            bytes.extend(ttl.to_be_bytes());
            bytes.extend(len.to_be_bytes());
            bytes.extend(data);
            records.push(bytes.into());
            match record.data() {
                RData::CNAME(name) => targets.push(wire_name(name)),
                RData::NS(name) => targets.push(wire_name(name)),
                _ => {}
            }
        }
        Ok(Self { ty, records, targets })
    }
}

/// A record's data with all names uncompressed: a pointer would be wrong in another message.
fn encode_data(data: &RData) -> Result<Vec<u8>, String> {
    // Pointers cannot reach this offset, so the encoder writes none.
    const OUT_OF_REACH: usize = 1 << 14;
    let mut bytes = vec![0; OUT_OF_REACH];
    let mut encoder = BinEncoder::with_offset(&mut bytes, OUT_OF_REACH as u32, EncodeMode::Normal);
    data.emit(&mut encoder).map_err(|error| error.to_string())?;
    Ok(bytes.split_off(OUT_OF_REACH))
}

fn wire_name(name: &Name) -> WireName {
    let mut bytes = Vec::new();
    for label in name.iter() {
        bytes.push(label.len() as u8);
        bytes.extend(label.to_ascii_lowercase());
    }
    bytes.push(0);
    bytes.into()
}

/// The offsets in a name at which it and the names above it start; the root comes last.
fn suffixes(name: &[u8]) -> impl Iterator<Item = usize> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let at = next?;
        let label = usize::from(*name.get(at)?);
        next = (label > 0).then_some(at + 1 + label);
        Some(at)
    })
}

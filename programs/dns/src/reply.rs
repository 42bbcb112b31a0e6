//! Writes an answer: header, question, records, EDNS.

use crate::query::{HEADER, Query, Wrong, name_len};
use crate::zone::{CNAME, NS, RrSet, SOA, suffixes};

/// The longest message (RFC 1035, section 4.2.2).
pub const MAX: usize = 65_535;
/// The longest answer over UDP without EDNS (RFC 1035, section 4.2.1).
pub const WITHOUT_EDNS: usize = 512;
/// The size that this server announces: it fits IPv6's minimum MTU, so it is not fragmented (RFC 9715).
pub const UNFRAGMENTED: u16 = 1232;
/// Length of an EDNS record without options.
const OPT: usize = 11;
/// Length of a cookie option.
const COOKIE: usize = 4 + size_of::<Cookie>();

/// The client's cookie followed by the server's (RFC 9018).
pub type Cookie = [u8; 24];

/// "Authoritative answer" (AA), in the third byte of the header.
const AUTHORITATIVE: u8 = 0x04;
const TRUNCATED: u8 = 0x02;
const PTR: u16 = 12;
const MINFO: u16 = 14;
const MX: u16 = 15;

pub enum Section {
    Answer = 0,
    Authority = 1,
    Additional = 2,
}

/// How many names later ones may point to; more are written in full.
const KNOWN: usize = 64;
/// Where a pointer can lead: it has 14 bits (RFC 1035, section 4.1.4).
const POINTED: usize = 1 << 14;

pub struct Reply<'b, 'q> {
    out: &'b mut [u8],
    len: usize,
    query: &'q Query<'q>,
    /// Names, and where they start in the message, for later ones to point to.
    known: Vec<(&'q [u8], usize)>,
    /// Where the question ends in the message.
    question_end: usize,
    /// Where records must end, to leave space for EDNS.
    limit: usize,
    cookie: Option<Cookie>,
    counts: [u16; 3],
}

impl<'b, 'q> Reply<'b, 'q> {
    /// Starts an answer with the header and the question. `out` is as long as the longest answer that client and
    /// transport accept, and has space for at least a header, a question and EDNS.
    pub fn new(query: &'q Query<'q>, cookie: Option<Cookie>, out: &'b mut [u8]) -> Self {
        let [id0, id1, flags, ..] = *query.header;
        out[..HEADER].fill(0);
        out[..2].copy_from_slice(&[id0, id1]);
        // A response (QR) with the opcode and RD bit of the query.
        out[2] = 0x80 | flags & 0x79;
        out[5] = u8::from(!query.question.is_empty());
        let question_end = HEADER + query.question.len();
        out[HEADER..question_end].copy_from_slice(query.question);
        let edns = query.edns.map_or(0, |_| OPT + cookie.map_or(0, |_| COOKIE));
        let limit = out.len() - edns;
        Self {
            out,
            len: question_end,
            query,
            known: Vec::new(),
            question_end,
            limit,
            cookie,
            counts: [0; 3],
        }
    }

    pub fn set_authoritative(&mut self) {
        self.out[2] |= AUTHORITATIVE;
    }

    pub fn set_name_error(&mut self) {
        self.out[3] = 3;
    }

    /// Whether only the question was written.
    pub fn has_no_records(&self) -> bool {
        self.len == self.question_end
    }

    /// Writes a whole set of records of `owner` and returns true, or sets the truncated bit if they do not fit.
    pub fn push(&mut self, section: Section, owner: &'q [u8], set: &'q RrSet) -> bool {
        let (start, known) = (self.len, self.known.len());
        for record in &set.records {
            if self.record(owner, set.ty, record).is_none() {
                self.len = start;
                self.known.truncate(known);
                self.truncate(&section);
                return false;
            }
        }
        self.counts[section as usize] += set.records.len() as u16;
        true
    }

    fn record(&mut self, owner: &'q [u8], ty: u16, record: &'q [u8]) -> Option<()> {
        self.name(owner)?;
        // Bytes before the names in the data, and their number. Only these types are compressed (RFC 3597, section 4).
        let (skip, names) = match ty {
            NS | CNAME | PTR => (0, 1),
            MX => (2, 1),
            SOA | MINFO => (0, 2),
            _ => return self.put(record),
        };
        let (fixed, mut rest) = record.split_at(10 + skip);
        let len_at = self.len + 8;
        self.put(fixed)?;
        for _ in 0..names {
            let end = suffixes(rest).last()? + 1;
            self.name(&rest[..end])?;
            rest = &rest[end..];
        }
        self.put(rest)?;
        let len = (self.len - len_at - 2) as u16;
        self.out[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
        Some(())
    }

    /// Writes a name, whose end may be a pointer to an earlier one.
    fn name(&mut self, name: &'q [u8]) -> Option<()> {
        let asked = self.query.name.as_bytes();
        if name.as_ptr_range().end == asked.as_ptr_range().end {
            return self.pointer(HEADER + asked.len() - name.len());
        }
        if self.known.is_empty() {
            // Enough for most answers.
            self.known.reserve(16);
            self.remember(asked, asked.len(), HEADER);
        }
        let start = self.len;
        for at in suffixes(name) {
            let is_rest = |known: &&(&[u8], usize)| is_same(known.0, &name[at..]);
            if let Some(&(_, to)) = self.known.iter().find(is_rest) {
                self.put(&name[..at])?;
                self.pointer(to)?;
                self.remember(name, at, start);
                return Some(());
            }
        }
        self.put(name)?;
        self.remember(name, name.len(), start);
        Some(())
    }

    fn pointer(&mut self, to: usize) -> Option<()> {
        self.put(&(0xc000 | to as u16).to_be_bytes())
    }

    /// Notes where the name is, and the names above it whose labels begin before `end`. The root needs no pointer.
    fn remember(&mut self, name: &'q [u8], end: usize, start: usize) {
        for at in suffixes(name).take_while(|at| *at < end && name[*at] > 0) {
            if start + at < POINTED && self.known.len() < KNOWN {
                self.known.push((&name[at..], start + at));
            }
        }
    }

    /// Writes bytes of a record, if they fit.
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.out[..self.limit].get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// Sets the truncated bit. Also drops all records, unless only additional ones did not fit: clients ignore the
    /// records of a truncated answer and ask again over TCP.
    fn truncate(&mut self, section: &Section) {
        self.out[2] |= TRUNCATED;
        if !matches!(section, Section::Additional) {
            self.len = self.question_end;
            self.counts = [0; 3];
        }
    }

    /// Finishes an answer with only the question and the truncated bit, and returns its length.
    pub fn finish_truncated(mut self) -> usize {
        self.truncate(&Section::Answer);
        self.finish(None)
    }

    /// Completes the answer and returns its length.
    pub fn finish(mut self, wrong: Option<Wrong>) -> usize {
        let code = wrong.map(|wrong| wrong as u8);
        if let Some(code) = code {
            self.out[3] = code & 0xf;
        }
        if let Some(edns) = self.query.edns {
            let [s0, s1] = UNFRAGMENTED.to_be_bytes();
            let high = code.unwrap_or_default() >> 4;
            let flags = if edns.dnssec_ok { 0x80 } else { 0 };
            let options = self.cookie.map_or(0, |_| COOKIE as u8);
            self.write(&[0, 0, 41, s0, s1, high, 0, flags, 0, 0, options]);
            if let Some(cookie) = self.cookie {
                self.write(&[0, 10, 0, cookie.len() as u8]);
                self.write(&cookie);
            }
            self.counts[Section::Additional as usize] += 1;
        }
        // Only a question of the longest name leaves no space for it.
        if let Some(error) = self.query.tsig.and_then(unknown_key)
            && self.len + error.len() <= self.out.len()
        {
            self.write(&error);
            self.counts[Section::Additional as usize] += 1;
        }
        for (to, count) in self.out[6..HEADER].chunks_exact_mut(2).zip(self.counts) {
            to.copy_from_slice(&count.to_be_bytes());
        }
        self.len
    }

    fn write(&mut self, bytes: &[u8]) {
        self.out[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Whether two names are the same, in either case of letters. Length bytes are no letters.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && (a == b || a.eq_ignore_ascii_case(b))
}

/// The record that says in the answer that the server does not have the key of the query's signature, which is not
/// compressed (RFC 8945, section 5.3.2).
fn unknown_key(tsig: &[u8]) -> Option<Vec<u8>> {
    const BADKEY: u8 = 17;
    let (name, record) = tsig.split_at(name_len(tsig, false)?);
    let data = record.get(10..)?;
    let (algorithm, rest) = data.split_at(name_len(data, false)?);
    let (time, rest) = rest.split_at_checked(8)?;
    let (len, rest) = rest.split_first_chunk()?;
    let id = rest.get(u16::from_be_bytes(*len).into()..)?.get(..2)?;
    let len = ((algorithm.len() + 16) as u16).to_be_bytes();
    let parts = [name, &record[..8], &len, algorithm, time, &[0, 0], id, &[0, BADKEY, 0, 0]];
    Some(parts.concat())
}

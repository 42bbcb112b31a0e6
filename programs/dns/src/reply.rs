//! Writes an answer: header, question, records, EDNS.

use crate::query::{Edns, HEADER, Query, Wrong};
use crate::zone::RrSet;

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

pub enum Section {
    Answer = 0,
    Authority = 1,
    Additional = 2,
}

pub struct Reply<'b> {
    out: &'b mut [u8],
    len: usize,
    /// Where the question ends in the message.
    question_end: usize,
    /// Where records must end, to leave space for EDNS.
    limit: usize,
    edns: Option<Edns>,
    cookie: Option<Cookie>,
    counts: [u16; 3],
}

impl<'b> Reply<'b> {
    /// Starts an answer with the header and the question. `out` is as long as the longest answer that client and
    /// transport accept, and has space for at least a header, a question and EDNS.
    pub fn new(query: &Query<'_>, cookie: Option<Cookie>, out: &'b mut [u8]) -> Self {
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
            question_end,
            limit,
            edns: query.edns,
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

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether only the question was written.
    pub fn has_no_records(&self) -> bool {
        self.len == self.question_end
    }

    /// Writes a whole set of records and returns true, or sets the truncated bit if they do not fit. `owner` is the
    /// offset of the records' name in the message.
    pub fn push(&mut self, section: Section, owner: usize, set: &RrSet) -> bool {
        let start = self.len;
        for record in &set.records {
            let end = self.len + 2 + record.len();
            // A compression pointer has 14 bits (RFC 1035, section 4.1.4). Only the addresses of very many name servers
            // need more.
            if end > self.limit || owner >= 1 << 14 {
                self.len = start;
                self.truncate(&section);
                return false;
            }
            let pointer = 0xc000 | owner as u16;
            self.out[self.len..self.len + 2].copy_from_slice(&pointer.to_be_bytes());
            self.out[self.len + 2..end].copy_from_slice(record);
            self.len = end;
        }
        self.counts[section as usize] += set.records.len() as u16;
        true
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
        if let Some(edns) = self.edns {
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

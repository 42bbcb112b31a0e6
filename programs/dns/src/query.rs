//! Reads the question in a datagram, without trusting any byte.

/// Length of the header of every message (RFC 1035, section 4.1.1).
pub const HEADER: usize = 12;
/// Length limit of a name, with the length bytes of its labels and the root (RFC 1035, section 2.3.4).
pub const LONGEST_NAME: usize = 255;
/// The type of the pseudo-record of EDNS (RFC 6891).
const OPT: u16 = 41;
/// The type of a signature (RFC 8945), which is the last record.
const TSIG: u16 = 250;
/// The code of EDNS's cookie option (RFC 7873).
const COOKIE: u16 = 10;

/// Why a question cannot be answered. The value is the answer's response code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Form = 1,
    NotImplemented = 4,
    Refused = 5,
    /// Signed by a key that the server does not have: it has none.
    NotAuth = 9,
    Version = 16,
}

/// A datagram to answer.
#[derive(Debug)]
pub struct Query<'a> {
    pub header: &'a [u8; HEADER],
    /// The question as received, with its letter case.
    pub question: &'a [u8],
    /// The question's name in lower case, in wire format.
    pub name: Name,
    pub ty: u16,
    pub class: u16,
    pub edns: Option<Edns>,
    /// The client's cookie of 8 bytes, followed by up to 32 bytes of the server's.
    pub cookie: Option<&'a [u8]>,
    /// The record of the query's signature.
    pub tsig: Option<&'a [u8]>,
    pub wrong: Option<Wrong>,
}

/// The client's EDNS parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The longest answer that it can receive, in bytes.
    pub size: u16,
    pub version: u8,
    /// "DNSSEC OK", copied into the answer (RFC 3225).
    pub dnssec_ok: bool,
}

/// A name in wire format: each label after its length, and an empty label at the end.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    bytes: [u8; LONGEST_NAME],
    len: u8,
}

impl Name {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

impl<'a> Query<'a> {
    /// Reads a datagram. `None` if it deserves no answer, because it is itself an answer or shorter than a header.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let (header, _) = datagram.split_first_chunk::<HEADER>()?;
        let is_answer = header[2] & 0x80 != 0;
        if is_answer {
            return None;
        }
        let name = Name { bytes: [0; LONGEST_NAME], len: 0 };
        let mut query = Self {
            header,
            question: &[],
            name,
            ty: 0,
            class: 0,
            edns: None,
            cookie: None,
            tsig: None,
            wrong: None,
        };
        let opcode = header[2] >> 3 & 0xf;
        if opcode != 0 {
            query.wrong = Some(Wrong::NotImplemented);
        }
        if let Err(wrong) = query.read_sections(datagram) {
            query.wrong.get_or_insert(wrong);
        }
        Some(query)
    }

    /// The number at offset `i` of the header.
    fn count(&self, i: usize) -> usize {
        u16::from_be_bytes([self.header[i], self.header[i + 1]]).into()
    }

    /// Reads the question, and EDNS even if the question cannot be answered, since a client with EDNS gets an answer
    /// with EDNS (RFC 6891, section 6.1.1). Messages with other opcodes have the same layout (RFC 1996, RFC 2136).
    fn read_sections(&mut self, datagram: &'a [u8]) -> Result<(), Wrong> {
        let (questions, in_between) = (self.count(4), self.count(6) + self.count(8));
        let mut rest = &datagram[HEADER..];
        let mut read = Ok(());
        if self.wrong.is_none() {
            read = if questions == 1 { self.read_question(rest) } else { Err(Wrong::Form) };
        }
        for _ in 0..questions {
            let name = name_len(rest, true).ok_or(Wrong::Form)?;
            rest = rest.get(name + 4..).ok_or(Wrong::Form)?;
        }
        for i in 0..in_between + self.count(10) {
            let record = Record::read(rest).ok_or(Wrong::Form)?;
            let (whole, after) = rest.split_at(record.len);
            rest = after;
            if record.ty == TSIG {
                if i + 1 < in_between + self.count(10) || i < in_between {
                    return Err(Wrong::Form);
                }
                self.tsig = Some(whole);
            }
            if record.ty == OPT {
                if i < in_between || !record.of_root || self.edns.is_some() {
                    return Err(Wrong::Form);
                }
                self.edns = Some(record.edns());
                self.cookie = record.cookie()?;
            }
        }
        match self.edns {
            _ if self.tsig.is_some() => read.and(Err(Wrong::NotAuth)),
            Some(edns) if edns.version > 0 => read.and(Err(Wrong::Version)),
            // A client may ask for just a cookie (RFC 7873, section 5.4).
            _ if questions == 0 && self.cookie.is_some() => Ok(()),
            _ => read,
        }
    }

    fn read_question(&mut self, bytes: &'a [u8]) -> Result<(), Wrong> {
        // It cannot be compressed: no other name precedes it.
        let name = name_len(bytes, false).ok_or(Wrong::Form)?;
        let fixed = bytes.get(name..name + 4).ok_or(Wrong::Form)?;
        self.name.len = name as u8;
        let to = &mut self.name.bytes[..name];
        to.copy_from_slice(&bytes[..name]);
        // Length bytes are below 64, so this changes letters only.
        to.make_ascii_lowercase();
        self.ty = u16::from_be_bytes([fixed[0], fixed[1]]);
        self.class = u16::from_be_bytes([fixed[2], fixed[3]]);
        self.question = &bytes[..name + 4];
        Ok(())
    }
}

/// A record outside the question section.
struct Record<'a> {
    of_root: bool,
    ty: u16,
    class: u16,
    ttl: [u8; 4],
    data: &'a [u8],
    /// Length of the whole record.
    len: usize,
}

impl<'a> Record<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let name = name_len(bytes, true)?;
        let fixed: &[u8; 10] = bytes[name..].first_chunk()?;
        let [k0, k1, c0, c1, t0, t1, t2, t3, l0, l1] = *fixed;
        let start = name + fixed.len();
        let end = start + usize::from(u16::from_be_bytes([l0, l1]));
        Some(Self {
            of_root: bytes[0] == 0,
            ty: u16::from_be_bytes([k0, k1]),
            class: u16::from_be_bytes([c0, c1]),
            ttl: [t0, t1, t2, t3],
            data: bytes.get(start..end)?,
            len: end,
        })
    }

    /// The EDNS parameters, if this is an OPT record.
    fn edns(&self) -> Edns {
        let [_, version, flags, _] = self.ttl;
        Edns { size: self.class, version, dnssec_ok: flags & 0x80 != 0 }
    }

    /// The first cookie among EDNS's options, all of which must be complete.
    fn cookie(&self) -> Result<Option<&'a [u8]>, Wrong> {
        let (mut options, mut cookie) = (self.data, None);
        while let Some((&[c0, c1, l0, l1], rest)) = options.split_first_chunk() {
            let len = u16::from_be_bytes([l0, l1]).into();
            let (value, next) = rest.split_at_checked(len).ok_or(Wrong::Form)?;
            if u16::from_be_bytes([c0, c1]) == COOKIE && cookie.is_none() {
                if !matches!(len, 8 | 16..=40) {
                    return Err(Wrong::Form);
                }
                cookie = Some(value);
            }
            options = next;
        }
        if options.is_empty() { Ok(cookie) } else { Err(Wrong::Form) }
    }
}

/// Length of a name, which may end with a pointer if it is `compressed`. The pointer is not followed.
pub fn name_len(bytes: &[u8], compressed: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            label @ 1..=63 => at += 1 + usize::from(label),
            192.. if compressed => return bytes.get(at + 1).map(|_| at + 2),
            _ => return None,
        }
        if at >= LONGEST_NAME {
            return None;
        }
    }
}

//! The data of records in zone files: a list of fields for each type.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use domain::base::iana::Rtype;
use domain::utils::base16;

use crate::parameters;
use crate::words::{ANAME, Words, base64, record_type, seconds};

#[derive(Clone, Copy)]
enum Field {
    /// A number of this many bytes.
    Number(usize),
    Seconds,
    Name,
    V4,
    V6,
    /// A string of up to 255 bytes, after its length.
    Text,
    /// One or more such strings.
    Texts,
    /// Letters and digits, after their length.
    Tag,
    /// A string without its length.
    LongText,
    Hex,
    /// This many groups of so many bytes in hexadecimal digits, with this character between them.
    Groups(usize, usize, char),
    Base64,
    /// A set of types (RFC 4034, section 4.1.2).
    Types,
    Parameters,
}

/// The fields of a type; `None` if its data is only written as `\# LENGTH HEX` (RFC 3597).
fn fields(ty: Rtype) -> Option<&'static [Field]> {
    use Field::{
        Base64, Groups, Hex, LongText, Name, Number, Parameters, Seconds, Tag, Text, Texts, Types,
        V4, V6,
    };
    const U8: Field = Number(1);
    const U16: Field = Number(2);
    const U32: Field = Number(4);
    Some(match ty {
        Rtype::A => &[V4],
        Rtype::AAAA => &[V6],
        Rtype::NS | Rtype::CNAME | Rtype::PTR | ANAME => &[Name],
        Rtype::SOA => &[Name, Name, U32, Seconds, Seconds, Seconds, Seconds],
        Rtype::RP | Rtype::MINFO => &[Name, Name],
        Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX => &[U16, Name],
        Rtype::SRV => &[U16, U16, U16, Name],
        Rtype::NAPTR => &[U16, U16, Text, Text, Text, Name],
        Rtype::TXT | Rtype::SPF => &[Texts],
        Rtype::HINFO => &[Text, Text],
        Rtype::CAA => &[U8, Tag, LongText],
        Rtype::URI => &[U16, U16, LongText],
        Rtype::SSHFP => &[U8, U8, Hex],
        Rtype::TLSA | Rtype::SMIMEA => &[U8, U8, U8, Hex],
        Rtype::DS | Rtype::CDS => &[U16, U8, U8, Hex],
        Rtype::DNSKEY | Rtype::CDNSKEY => &[U16, U8, U8, Base64],
        Rtype::CERT => &[U16, U16, U8, Base64],
        Rtype::OPENPGPKEY | Rtype::DHCID => &[Base64],
        Rtype::CSYNC => &[U32, U16, Types],
        Rtype::ZONEMD => &[U32, U8, U8, Hex],
        Rtype::NID | Rtype::L64 => &[U16, Groups(4, 2, ':')],
        Rtype::L32 => &[U16, V4],
        Rtype::LP => &[U16, Name],
        Rtype::EUI48 => &[Groups(6, 1, '-')],
        Rtype::EUI64 => &[Groups(8, 1, '-')],
        Rtype::SVCB | Rtype::HTTPS => &[U16, Name, Parameters],
        _ => return None,
    })
}

const UNSERVED: [Rtype; 5] =
    [Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::DNAME];

/// Reads the data of a record, up to the end of its entry.
pub fn read(ty: Rtype, words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    // Begins data without a form (RFC 3597).
    let is_generic = words.take_if("\\#");
    let mut data = Vec::new();
    match (fields(ty), ty.to_int()) {
        // Answers would lack their signatures, or the aliases of a DNAME record.
        _ if UNSERVED.contains(&ty) => {
            return Err(format!("expected no {ty} records, which this server cannot answer"));
        }
        // Meta-types, and types of questions (RFC 6895, section 3.1).
        (_, 0 | 41 | 128..=255) => return Err(format!("expected a type of records, not {ty}")),
        (Some(fields), _) if !is_generic => {
            for field in fields {
                field.read(words, &mut data)?;
            }
            words.end()?;
            if !is_digest_whole(ty, &data) {
                return Err("expected a digest of its kind's length".into());
            }
        }
        (fields, _) if is_generic && (fields.is_none() || ty == Rtype::ZONEMD) => {
            let len = words.take_number(u16::MAX.into())? as usize;
            let hex = base16::decode_vec(&words.take_all()).ok().filter(|data| data.len() == len);
            data = hex.ok_or_else(|| format!("expected {len} bytes as hexadecimal digits"))?;
        }
        (Some(_), _) => return Err(format!("expected the form of {ty}, not \"\\#\"")),
        (None, _) => return Err(format!("expected \"\\# LENGTH HEX\" as data of {ty}")),
    }
    if data.len() > u16::MAX.into() {
        return Err("expected at most 65535 bytes of data".into());
    }
    Ok(data)
}

impl Field {
    fn read(self, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Number(len) => {
                let bytes = words.take_number(u32::MAX >> (32 - 8 * len))?.to_be_bytes();
                out.extend(&bytes[4 - len..]);
            }
            Self::Seconds => {
                out.extend(words.take("a time", |word| seconds(&word.text()))?.to_be_bytes());
            }
            Self::Name => out.extend(words.take_name()?),
            Self::V4 => {
                let ip = words.take("an IPv4 address", |word| word.text().parse().ok());
                out.extend(ip.map(|ip: Ipv4Addr| ip.octets())?);
            }
            Self::V6 => {
                let ip = words.take("an IPv6 address", |word| word.text().parse().ok());
                out.extend(ip.map(|ip: Ipv6Addr| ip.octets())?);
            }
            Self::Text => {
                let text = words.take("a string of up to 255 bytes", |word| {
                    Some(word.bytes()).filter(|text| text.len() <= 255)
                })?;
                out.push(text.len() as u8);
                out.extend(text);
            }
            Self::Texts => {
                Self::Text.read(words, out)?;
                while !words.is_empty() {
                    Self::Text.read(words, out)?;
                }
            }
            Self::Tag => {
                let tag = words.take("letters and digits", |word| {
                    let is_tag = |tag: &String| tag.bytes().all(|c| c.is_ascii_alphanumeric());
                    Some(word.text()).filter(|tag| is_tag(tag) && (1..=255).contains(&tag.len()))
                })?;
                out.push(tag.len() as u8);
                out.extend(tag.bytes());
            }
            Self::LongText => out.extend(words.take("a string", |word| Some(word.bytes()))?),
            Self::Hex => {
                let data = base16::decode_vec(&words.take_all()).ok();
                let data = data.filter(|data| !data.is_empty());
                out.extend(data.ok_or("expected hexadecimal digits in pairs")?);
            }
            Self::Groups(count, len, sign) => {
                let form =
                    format!("{count} groups of hexadecimal digits with \"{sign}\" between them");
                let groups = words.take(&form, |word| {
                    let text = word.text();
                    let group = |group: &str| {
                        let digits = format!("{group:0>width$}", width = 2 * len);
                        // NID and L64 may leave out zeros, as addresses do.
                        let fits = !group.is_empty() && (len > 1 || group.len() == 2);
                        base16::decode_vec(&digits).ok().filter(|bytes| fits && bytes.len() == len)
                    };
                    let groups: Option<Vec<_>> = text.split(sign).map(group).collect();
                    groups.filter(|groups| groups.len() == count)
                })?;
                out.extend(groups.concat());
            }
            Self::Base64 => {
                out.extend(base64(&words.take_all()).ok_or("expected Base64")?);
            }
            Self::Types => write_types(words, out)?,
            Self::Parameters => parameters::read(words, out)?,
        }
        Ok(())
    }
}

/// Whether a digest of a known kind has its length.
fn is_digest_whole(ty: Rtype, data: &[u8]) -> bool {
    let (kind, digest, lens): (_, _, &[_]) = match (ty, data) {
        (Rtype::SSHFP, [_, kind, digest @ ..]) => (kind, digest, &[20, 32]),
        (Rtype::DS | Rtype::CDS, [_, _, _, kind, digest @ ..]) => (kind, digest, &[20, 32, 32, 48]),
        _ => return true,
    };
    lens.get(usize::from(*kind).wrapping_sub(1)).is_none_or(|len| *len == digest.len())
}

fn write_types(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let mut types = BTreeSet::new();
    while !words.is_empty() {
        types.insert(words.take("a type", record_type)?.to_int());
    }
    for window in 0..=u8::MAX {
        let mut bits = [0; 32];
        for [_, ty] in types.iter().map(|ty| ty.to_be_bytes()).filter(|ty| ty[0] == window) {
            bits[usize::from(ty / 8)] |= 0x80 >> (ty % 8);
        }
        if let Some(last) = bits.iter().rposition(|byte| *byte != 0) {
            out.extend([window, last as u8 + 1]);
            out.extend(&bits[..=last]);
        }
    }
    Ok(())
}

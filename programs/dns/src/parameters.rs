//! The parameters of SVCB and HTTPS records (RFC 9460).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use domain::base::iana::SvcParamKey;

use crate::words::{Words, base64, number, quoted};

const FORM: &str = "KEY or KEY=VALUE";
const MANDATORY: u16 = SvcParamKey::MANDATORY.to_int();
const ALPN: u16 = SvcParamKey::ALPN.to_int();
const NO_DEFAULT_ALPN: u16 = SvcParamKey::NO_DEFAULT_ALPN.to_int();
const DOHPATH: u16 = SvcParamKey::DOHPATH.to_int();

/// Reads parameters in any order, and writes them in the order of their keys.
pub fn read(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let mut all = BTreeMap::new();
    while !words.is_empty() {
        let in_quotes = words.rest.first().is_some_and(|word| word.joined);
        let mut bytes = words.take(FORM, |word| (!word.quoted).then(|| word.bytes()))?;
        if in_quotes && bytes.ends_with(b"=") {
            bytes.extend(words.take(FORM, |word| Some(word.bytes()))?);
        }
        let (key, value) = parameter(&bytes).ok_or_else(|| {
            format!("expected {FORM}, not {}", quoted(&String::from_utf8_lossy(&bytes)))
        })?;
        if all.insert(key, value).is_some() {
            return Err("expected each parameter once".into());
        }
    }
    let mandatory = all.get(&MANDATORY).map_or(&[][..], Vec::as_slice);
    let is_there = |key: &[u8]| all.contains_key(&u16::from_be_bytes([key[0], key[1]]));
    if !mandatory.chunks_exact(2).all(is_there) {
        return Err("expected the parameters that \"mandatory\" names".into());
    }
    if all.contains_key(&NO_DEFAULT_ALPN) && !all.contains_key(&ALPN) {
        return Err("expected \"alpn\" with \"no-default-alpn\"".into());
    }
    for (key, value) in all {
        let len = u16::try_from(value.len()).map_err(|_| "expected a shorter parameter")?;
        out.extend(key.to_be_bytes());
        out.extend(len.to_be_bytes());
        out.extend(value);
    }
    Ok(())
}

/// A key by its name in lower case, or `key` and its number without leading zeros.
fn key(text: &str) -> Option<SvcParamKey> {
    let key: SvcParamKey = text.parse().ok()?;
    let is_exact = text == key.to_string() || text == format!("key{}", key.to_int());
    (is_exact && key != SvcParamKey::INVALID).then_some(key)
}

/// `KEY` or `KEY=VALUE`.
fn parameter(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut parts = bytes.splitn(2, |byte| *byte == b'=');
    let name = str::from_utf8(parts.next()?).ok()?;
    let value = parts.next();
    let (key, text) = (key(name)?, str::from_utf8(value.unwrap_or_default()).ok());
    let value = match key {
        // Under its number, a key without a name has a value of bytes.
        _ if name.starts_with("key") => {
            (key.to_int() > DOHPATH).then(|| value.unwrap_or_default().into())?
        }
        SvcParamKey::MANDATORY => mandatory(text?)?,
        SvcParamKey::ALPN => protocols(value?)?,
        SvcParamKey::NO_DEFAULT_ALPN if value.is_none() => Vec::new(),
        SvcParamKey::PORT => number::<u16>(text?)?.to_be_bytes().into(),
        SvcParamKey::IPV4HINT => {
            let ips = text?.split(',').map(|ip| ip.parse().map(|ip: Ipv4Addr| ip.octets()));
            ips.collect::<Result<Vec<_>, _>>().ok()?.concat()
        }
        SvcParamKey::IPV6HINT => {
            let ips = text?.split(',').map(|ip| ip.parse().map(|ip: Ipv6Addr| ip.octets()));
            ips.collect::<Result<Vec<_>, _>>().ok()?.concat()
        }
        SvcParamKey::ECH => base64(text?)?,
        SvcParamKey::DOHPATH => value?.into(),
        _ => return None,
    };
    Some((key.to_int(), value))
}

/// A list of other keys, each once.
fn mandatory(text: &str) -> Option<Vec<u8>> {
    let keys = text.split(',').map(|item| Some(key(item)?.to_int()));
    let mut keys = keys.collect::<Option<Vec<_>>>()?;
    keys.sort_unstable();
    let is_set = keys.windows(2).all(|pair| pair[0] < pair[1]) && keys[0] > MANDATORY;
    is_set.then(|| keys.into_iter().flat_map(u16::to_be_bytes).collect())
}

/// A list of names of up to 255 bytes. A backslash that is left after the zone file's escapes makes a comma or a
/// backslash part of a name (RFC 9460, appendix A.1).
fn protocols(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut names, mut bytes) = (vec![Vec::new()], bytes.iter());
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b',' => {
                names.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next().filter(|byte| matches!(byte, b',' | b'\\'))?,
            byte => byte,
        };
        names.last_mut()?.push(*byte);
    }
    let mut out = Vec::new();
    for name in names {
        out.push(u8::try_from(name.len()).ok().filter(|len| *len > 0)?);
        out.extend(name);
    }
    Some(out)
}

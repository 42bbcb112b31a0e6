//! The words of a zone file's entries.

use std::str::FromStr;

use domain::base::iana::Rtype;
use domain::utils::base64;

/// A name in wire format, usually in lower case.
pub type WireName = Box<[u8]>;

/// The alias of an apex, which has no registered number.
pub const ANAME: Rtype = Rtype::from_int(65305);

/// A word, without quotes.
pub struct Word {
    /// Bytes, and whether each was escaped: `\.` and `\046` are dots that end no label.
    pub chars: Vec<(u8, bool)>,
    pub quoted: bool,
    /// Whether quotes follow it without a space, as in `KEY="VALUE"`.
    pub joined: bool,
    pub line: usize,
}

impl Word {
    pub fn bytes(&self) -> Vec<u8> {
        self.chars.iter().map(|(byte, _)| *byte).collect()
    }

    /// With the backslashes, so that no number and no name of a type has one.
    pub fn text(&self) -> String {
        let mut text = Vec::with_capacity(self.chars.len());
        for (byte, escaped) in &self.chars {
            text.extend(escaped.then_some(b'\\'));
            text.push(*byte);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    fn is(&self, text: &str) -> bool {
        !self.quoted && self.text().eq_ignore_ascii_case(text)
    }
}

/// The words of an entry that were not read yet.
pub struct Words<'w> {
    pub rest: &'w [Word],
    pub origin: &'w [u8],
    /// The line of the word that was read last.
    pub line: usize,
}

impl Words<'_> {
    /// Reads a word by a function that returns `None` if the word is not `what`.
    pub fn take<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&Word) -> Option<T>,
    ) -> Result<T, String> {
        let Some((word, rest)) = self.rest.split_first() else {
            return Err(format!("expected {what}, not the end of the entry"));
        };
        (self.rest, self.line) = (rest, word.line);
        read(word).ok_or_else(|| format!("expected {what}, not {}", quoted(&word.text())))
    }

    pub fn take_name(&mut self) -> Result<WireName, String> {
        let origin = self.origin;
        self.take("a name", |word| name(word, origin))
    }

    pub fn take_number(&mut self, max: u32) -> Result<u32, String> {
        let what = format!("a number up to {max}");
        self.take(&what, |word| number(&word.text()).filter(|number| *number <= max))
    }

    /// Reads all words that are left as one.
    pub fn take_all(&mut self) -> String {
        self.line = self.rest.last().map_or(self.line, |word| word.line);
        std::mem::take(&mut self.rest).iter().map(Word::text).collect()
    }

    /// Reads the next word if it is `text`.
    pub fn take_if(&mut self, text: &str) -> bool {
        let found = self.rest.first().is_some_and(|word| word.is(text));
        self.rest = &self.rest[found.into()..];
        found
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn end(&mut self) -> Result<(), String> {
        if self.is_empty() { Ok(()) } else { self.take("the end of the entry", |_| None) }
    }
}

/// The beginning of a text in quotes.
pub fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

/// A number in decimal digits.
pub fn number<T: FromStr>(text: &str) -> Option<T> {
    text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A time in seconds, or with units: `1h30m`.
pub fn seconds(text: &str) -> Option<u32> {
    let mut total = number::<u32>(text);
    let units = if total.is_some() { "" } else { text };
    for part in units.split_inclusive(|unit: char| unit.is_ascii_alphabetic()) {
        // The last part may end in another character, of more bytes.
        let (digits, unit) = part.split_at_checked(part.len() - 1)?;
        let unit = match unit.to_ascii_lowercase().as_str() {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return None,
        };
        let part = number::<u32>(digits)?.checked_mul(unit)?;
        total = Some(total.unwrap_or(0).checked_add(part)?);
    }
    // RFC 2181, section 8.
    total.filter(|total| *total <= i32::MAX as u32)
}

/// A name in wire format.
pub fn name(word: &Word, origin: &[u8]) -> Option<WireName> {
    let origin = Some(origin).filter(|origin| !origin.is_empty());
    match word.bytes()[..] {
        [b'@'] if word.is("@") => return origin.map(Into::into),
        [b'.'] if word.is(".") => return Some([0].into()),
        // Whether the dots in quotes end labels is a matter of dispute.
        _ if word.quoted => return None,
        _ => {}
    }
    let mut name = Vec::new();
    let mut labels: Vec<_> = word.chars.split(|char| *char == (b'.', false)).collect();
    // A dot at the end makes the name absolute.
    let is_absolute = labels.pop_if(|last| last.is_empty()).is_some();
    for label in labels {
        name.push(u8::try_from(label.len()).ok().filter(|len| (1..=63).contains(len))?);
        name.extend(label.iter().map(|(byte, _)| byte));
    }
    name.extend(if is_absolute { &[0] } else { origin? });
    (name.len() <= 255).then(|| name.into())
}

/// Base64 without bits that no byte has.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let data: Vec<u8> = base64::decode(text).ok()?;
    (!data.is_empty() && base64::encode_string(&data) == text).then_some(data)
}

/// The type that a word names.
pub fn record_type(word: &Word) -> Option<Rtype> {
    let text = word.text();
    let ty = if text.eq_ignore_ascii_case("ANAME") { ANAME } else { text.parse().ok()? };
    // The parser takes "TYPE+1".
    (ty.to_int() > 0 && !text.contains('+')).then_some(ty)
}

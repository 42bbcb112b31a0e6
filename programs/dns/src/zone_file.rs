//! Reads zone files (RFC 1035, section 5): words, entries and directives.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;

use domain::base::iana::Rtype;

use crate::rdata;
use crate::zone::WireName;

/// How deep files may include others, so that a file that includes itself is an error.
const MAX_DEPTH: usize = 8;
/// The alias of an apex, which has no registered number.
pub const ANAME: Rtype = Rtype::from_int(65305);

/// A record, and where it is written.
pub struct Record {
    pub owner: WireName,
    pub ttl: u32,
    pub ty: u16,
    pub data: Vec<u8>,
    file: Rc<Path>,
    line: usize,
}

impl Record {
    /// An error about this record.
    pub fn wrong(&self, reason: &str) -> String {
        format!("{}:{}: {reason}", self.file.display(), self.line)
    }
}

/// A word, without quotes.
pub struct Word {
    /// Bytes, and whether each was escaped: `\.` and `\046` are dots that end no label.
    chars: Vec<(u8, bool)>,
    quoted: bool,
    line: usize,
}

impl Word {
    pub fn bytes(&self) -> Vec<u8> {
        self.chars.iter().map(|(byte, _)| *byte).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    fn is(&self, text: &str) -> bool {
        let is_plain = !self.quoted && !self.chars.iter().any(|(_, escaped)| *escaped);
        is_plain && self.bytes().eq_ignore_ascii_case(text.as_bytes())
    }
}

/// The words of an entry that were not read yet.
pub struct Words<'w> {
    rest: &'w [Word],
    origin: &'w [u8],
    /// The line of the word that was read last.
    line: usize,
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
        read(word).ok_or_else(|| format!("expected {what}, not {:?}", word.text()))
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

    /// Reads `\#`, which begins data without a form (RFC 3597).
    pub fn take_marker(&mut self) -> bool {
        let found =
            self.rest.first().is_some_and(|word| !word.quoted && word.chars == [(b'#', true)]);
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

/// A number in decimal digits.
pub fn number<T: FromStr>(text: &str) -> Option<T> {
    text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A time in seconds, or with units: `1h30m`.
pub fn seconds(text: &str) -> Option<u32> {
    let mut total = number::<u32>(text);
    let units = if total.is_some() { "" } else { text };
    for part in units.split_inclusive(|unit: char| unit.is_ascii_alphabetic()) {
        let (digits, unit) = part.split_at(part.len() - 1);
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
fn name(word: &Word, origin: &[u8]) -> Option<WireName> {
    match word.bytes()[..] {
        [b'@'] if word.is("@") => return Some(origin.into()),
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
    name.extend(if is_absolute { &[0] } else { origin });
    (name.len() <= 255).then(|| name.into())
}

/// The type that a word names.
pub fn record_type(word: &Word) -> Option<Rtype> {
    let text = word.text();
    if text.eq_ignore_ascii_case("ANAME") { Some(ANAME) } else { text.parse().ok() }
}

/// Divides a file into words.
struct Lexer<'t> {
    rest: &'t [u8],
    line: usize,
}

impl Lexer<'_> {
    /// The words of the next line, or of several lines in parentheses; `None` at the end of the file.
    fn entry(&mut self) -> Result<Option<Vec<Word>>, String> {
        // With the line of the open parenthesis.
        let (mut words, mut opened) = (Vec::new(), None);
        while let [first, after @ ..] = self.rest {
            match first {
                b' ' | b'\t' | b'\r' => self.rest = after,
                b'\n' => {
                    (self.rest, self.line) = (after, self.line + 1);
                    if opened.is_none() {
                        return Ok(Some(words));
                    }
                }
                b';' => {
                    let end = after.iter().position(|byte| *byte == b'\n');
                    self.rest = &after[end.unwrap_or(after.len())..];
                }
                b'(' if opened.is_none() => (self.rest, opened) = (after, Some(self.line)),
                b')' if opened.is_some() => (self.rest, opened) = (after, None),
                b'(' | b')' => return Err("expected parentheses in pairs, not nested".into()),
                _ => words.push(self.word()?),
            }
        }
        if let Some(line) = opened {
            self.line = line;
            return Err("expected another parenthesis before the end of the file".into());
        }
        Ok((!words.is_empty()).then_some(words))
    }

    fn word(&mut self) -> Result<Word, String> {
        let (mut chars, mut in_quotes) = (Vec::new(), false);
        let (quoted, line) = (self.rest[0] == b'"', self.line);
        while let [byte, after @ ..] = self.rest {
            match byte {
                b'"' if in_quotes => {
                    self.rest = after;
                    return Ok(Word { chars, quoted, line });
                }
                // Quotes within a word begin the value of a parameter.
                b'"' if matches!(chars.last(), None | Some((b'=', _))) => in_quotes = true,
                b'"' => return Err("expected a space before the quotes".into()),
                b'\n' if in_quotes => break,
                b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' | b';' if !in_quotes => break,
                b'\\' => {
                    let (byte, after) = escaped(after)
                        .ok_or("expected a character or three digits up to 255 after \"\\\"")?;
                    chars.push((byte, true));
                    self.rest = after;
                    continue;
                }
                byte => chars.push((*byte, false)),
            }
            self.rest = after;
        }
        if in_quotes {
            return Err("expected quotes before the end of the line".into());
        }
        Ok(Word { chars, quoted, line })
    }
}

/// The byte that stands after a backslash, by itself or as three digits, and the rest of the text.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'0'..=b'9', ..] => {
            let (digits, rest) = text.split_at_checked(3)?;
            Some((number(str::from_utf8(digits).ok()?)?, rest))
        }
        [] | [b'\n' | b'\r', ..] => None,
        [byte, rest @ ..] => Some((*byte, rest)),
    }
}

/// The state of reading one file.
struct Reader {
    file: Rc<Path>,
    origin: WireName,
    ttl: Option<u32>,
    owner: Option<WireName>,
    /// How many files include this one.
    depth: usize,
}

/// Reads the records of a zone file. Names are relative to the file's name without its extension until an `$ORIGIN`.
pub fn read(text: &[u8], file: &Path) -> Result<Vec<Record>, String> {
    let stem = format!("{}.", file.file_stem().unwrap_or_default().to_string_lossy());
    let chars = stem.bytes().map(|byte| (byte, false)).collect();
    let origin = name(&Word { chars, quoted: false, line: 0 }, &[]).unwrap_or([0].into());
    let mut records = Vec::new();
    let reader = Reader { file: file.into(), origin, ttl: None, owner: None, depth: 0 };
    reader.read(text, &mut records)?;
    Ok(records)
}

impl Reader {
    fn read(mut self, text: &[u8], records: &mut Vec<Record>) -> Result<(), String> {
        let file = Rc::clone(&self.file);
        let wrong = |line, error| format!("{}:{line}: {error}", file.display());
        let mut lexer = Lexer { rest: text, line: 1 };
        loop {
            let is_indented = matches!(lexer.rest, [b' ' | b'\t', ..]);
            let entry = lexer.entry().map_err(|error| wrong(lexer.line, error))?;
            let Some(entry) = entry else { return Ok(()) };
            let Some(first) = entry.first() else { continue };
            let origin = self.origin.clone();
            let mut words = Words { rest: &entry, origin: &origin, line: first.line };
            let read = if !is_indented && first.chars.starts_with(&[(b'$', false)]) {
                self.directive(&mut words, records)
            } else {
                self.record(&mut words, is_indented).map(|record| records.push(record))
            };
            read.map_err(|error| wrong(words.line, error))?;
        }
    }

    fn record(&mut self, words: &mut Words<'_>, is_indented: bool) -> Result<Record, String> {
        if !is_indented {
            self.owner = Some(words.take_name()?.to_ascii_lowercase().into());
        }
        let owner = self.owner.clone().ok_or("expected a name before the first record")?;
        let (mut ttl, line) = (None, words.line);
        let mut take_ttl = |words: &mut Words<'_>| {
            let first = words.rest.first().and_then(|word| word.chars.first());
            if ttl.is_none() && first.is_some_and(|(first, _)| first.is_ascii_digit()) {
                ttl = Some(words.take("a TTL", |word| seconds(&word.text()))?);
            }
            Ok::<_, String>(())
        };
        // In either order.
        take_ttl(words)?;
        let _ = words.take_if("IN") || words.take_if("CLASS1");
        take_ttl(words)?;
        let ty = words.take("a TTL, the class IN or a type", record_type)?;
        let ttl = ttl.or(self.ttl).ok_or("expected a TTL, or $TTL before this record")?;
        let data = rdata::read(ty, words)?;
        Ok(Record { owner, ttl, ty: ty.to_int(), data, file: Rc::clone(&self.file), line })
    }

    fn directive(
        &mut self,
        words: &mut Words<'_>,
        records: &mut Vec<Record>,
    ) -> Result<(), String> {
        if words.take_if("$TTL") {
            self.ttl = Some(words.take("a TTL", |word| seconds(&word.text()))?);
        } else if words.take_if("$ORIGIN") {
            self.origin = words.take_name()?;
        } else if words.take_if("$INCLUDE") {
            // Relative to the folder of this file.
            let path = words.take("a file", |word| Some(self.file.with_file_name(word.text())))?;
            let origin = if words.is_empty() { self.origin.clone() } else { words.take_name()? };
            words.end()?;
            let depth = self.depth + 1;
            if depth > MAX_DEPTH {
                return Err(format!("expected files that include others up to {MAX_DEPTH} deep"));
            }
            let text = fs::read(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let included = Self { file: path.into(), origin, ttl: self.ttl, owner: None, depth };
            return included.read(&text, records);
        } else {
            return words.take("$INCLUDE, $ORIGIN or $TTL", |_| None);
        }
        words.end()
    }
}

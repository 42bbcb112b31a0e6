//! Reads zone files (RFC 1035, section 5): words, entries and directives.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::rc::Rc;

use crate::rdata;
use crate::words::{WireName, Word, Words, name, number, quoted, record_type, seconds};

/// How deep files may include others, so that a file that includes itself is an error.
const MAX_DEPTH: u8 = 8;
/// Bytes of all included files together. Each counts a page at least.
const MAX_INCLUDED: u64 = 1 << 30;
const PAGE: u64 = 4096;

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
                b' ' | b'\t' => self.rest = after,
                b'\r' if after.starts_with(b"\n") => self.rest = after,
                b'\r' => return Err("expected a line feed after a carriage return".into()),
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
        let (mut chars, quoted, line) = (Vec::new(), self.rest[0] == b'"', self.line);
        self.rest = &self.rest[quoted.into()..];
        while let [byte, after @ ..] = self.rest {
            let char = match byte {
                b'"' if quoted => {
                    self.rest = after;
                    return Ok(Word { chars, quoted, joined: false, line });
                }
                b'\n' if quoted => break,
                b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' | b';' | b'"' if !quoted => break,
                b'\\' => {
                    let (byte, after) = escaped(after)
                        .ok_or("expected a character or three digits up to 255 after \"\\\"")?;
                    self.rest = after;
                    chars.push((byte, true));
                    continue;
                }
                0..b' ' if *byte != b'\t' => {
                    return Err("expected no control character: write it as \"\\DDD\"".into());
                }
                byte => (*byte, false),
            };
            self.rest = after;
            chars.push(char);
        }
        if quoted {
            return Err("expected quotes before the end of the line".into());
        }
        Ok(Word { chars, quoted, joined: self.rest.starts_with(b"\""), line })
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
    /// Empty if the file's name is not a name.
    origin: WireName,
    ttl: Option<u32>,
    owner: Option<WireName>,
    /// How many files include this one.
    depth: u8,
}

/// Reads the records of a zone file. Names are relative to the file's name without its extension until an `$ORIGIN`.
pub fn read(text: &[u8], file: &Path) -> Result<Vec<Record>, String> {
    let stem = format!("{}.", file.file_stem().unwrap_or_default().to_string_lossy());
    let chars = stem.bytes().map(|byte| (byte, false)).collect();
    let origin = name(&Word { chars, quoted: false, joined: false, line: 0 }, &[]);
    let origin = origin.unwrap_or_default();
    let mut records = Vec::new();
    let reader = Reader { file: file.into(), origin, ttl: None, owner: None, depth: 0 };
    reader.read(text, &mut MAX_INCLUDED.clone(), &mut records)?;
    Ok(records)
}

impl Reader {
    fn read(
        mut self,
        text: &[u8],
        left: &mut u64,
        records: &mut Vec<Record>,
    ) -> Result<(), String> {
        let file = Rc::clone(&self.file);
        let wrong = |line, error| format!("{}:{line}: {error}", file.display());
        if text.starts_with(b"\xef\xbb\xbf") {
            return Err(wrong(1, "expected no byte order mark".into()));
        }
        let mut lexer = Lexer { rest: text, line: 1 };
        loop {
            let is_indented = matches!(lexer.rest, [b' ' | b'\t', ..]);
            let entry = lexer.entry().map_err(|error| wrong(lexer.line, error))?;
            let Some(entry) = entry else { return Ok(()) };
            let Some(first) = entry.first() else { continue };
            let (origin, mut included) = (self.origin.clone(), None);
            let mut words = Words { rest: &entry, origin: &origin, line: first.line };
            let read = if !is_indented && first.chars.starts_with(&[(b'$', false)]) {
                self.directive(&mut words, left).map(|found| included = found)
            } else {
                self.record(&mut words, is_indented).map(|record| records.push(record))
            };
            read.map_err(|error| wrong(words.line, error))?;
            if let Some((reader, text)) = included {
                reader.read(&text, left, records)?;
            }
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

    /// Returns a file to include with its text.
    fn directive(
        &mut self,
        words: &mut Words<'_>,
        left: &mut u64,
    ) -> Result<Option<(Self, Vec<u8>)>, String> {
        let mut included = None;
        if words.take_if("$TTL") {
            self.ttl = Some(words.take("a TTL", |word| seconds(&word.text()))?);
        } else if words.take_if("$ORIGIN") {
            self.origin = words.take_name()?;
        } else if words.take_if("$INCLUDE") {
            // Relative to the folder of this file.
            let file = |word: &Word| String::from_utf8(word.bytes()).ok();
            let path = self.file.with_file_name(words.take("a file", file)?);
            let origin = if words.is_empty() { self.origin.clone() } else { words.take_name()? };
            let depth = self.depth + 1;
            if depth > MAX_DEPTH {
                return Err(format!("expected files that include others up to {MAX_DEPTH} deep"));
            }
            let text = include(&path, left).map_err(|error| {
                format!("cannot read {}: {error}", quoted(&path.to_string_lossy()))
            })?;
            let reader = Self { file: path.into(), origin, ttl: self.ttl, owner: None, depth };
            included = Some((reader, text));
        } else {
            words.take("$INCLUDE, $ORIGIN or $TTL", |_| None::<()>)?;
        }
        words.end()?;
        Ok(included)
    }
}

/// Reads a regular file: others may have no end, or no beginning.
fn include(path: &Path, left: &mut u64) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("expected a regular file"));
    }
    let rest = left.checked_sub(about.len().max(PAGE));
    *left = rest.ok_or_else(|| io::Error::other("expected 1 GiB in all included files"))?;
    let mut text = Vec::new();
    fs::File::open(path)?.take(about.len()).read_to_end(&mut text)?;
    Ok(text)
}

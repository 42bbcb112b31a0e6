//! The files of a folder, and no others.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Bytes read from a file at once, which every stream has in memory: see `endpoint::STREAMS`. A
/// sixteenth of it would cost the server half as much time again: each chunk is read by another thread.
const CHUNK: u64 = 1 << 20;

/// A folder whose files may be read.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    pub fn new(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        if !folder.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self(folder))
    }

    /// Opens a file in the folder. Whatever is wrong, who asks hears the same, and learns nothing
    /// about what is outside.
    pub fn open(&self, path: &str) -> Result<Source, &'static str> {
        self.find(path).ok_or("no such file")
    }

    fn find(&self, path: &str) -> Option<Source> {
        // Names only: no "..", no "/" at the start.
        let relative = Path::new(path);
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        // Nor by a link.
        let path = self.0.join(relative).canonicalize().ok()?;
        // Before it is opened: a pipe would wait for who writes to it.
        if !path.starts_with(&self.0) || !path.is_file() {
            return None;
        }
        let file = File::open(path).ok()?;
        let len = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        Some(Source { file, len, left: len })
    }
}

/// A file that is read from its start to where its end was when it was opened.
#[derive(Debug)]
pub struct Source {
    file: File,
    pub len: u64,
    left: u64,
}

impl Source {
    /// Reads the next part in place of what is in `part`: nothing, at the end.
    pub fn read(&mut self, part: &mut Vec<u8>) -> io::Result<()> {
        part.clear();
        let most = self.left.min(CHUNK);
        part.reserve_exact(most as usize);
        (&mut self.file).take(most).read_to_end(part)?;
        self.left -= part.len() as u64;
        if part.is_empty() && self.left > 0 {
            // It was made shorter meanwhile.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

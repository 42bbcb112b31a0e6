//! The command line of the examples, how they print, and how they end. A larger program takes a crate for this, such as clap.

// Each example uses only a part.
#![allow(dead_code, unused_macros)]

use std::fmt::{self, Debug, Display};
use std::str::FromStr;

/// Unlike std's, goes on when nobody reads any more.
macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Unlike std's, goes on when nobody reads any more.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// What an example's `main` returns. An error ends it with status 1 and a line.
pub type Result = std::result::Result<(), Failure>;

/// Any error, as text. `main` prints an error by `Debug`.
pub struct Failure(String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The arguments. More than `most`, or one of another form, `--help` included, ends the example with status 2 and the
/// usage.
pub fn arguments<T: FromStr>(usage: &str, most: usize) -> Vec<T> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let read: Option<Vec<_>> = args.iter().map(|arg| arg.to_str()?.parse().ok()).collect();
    read.filter(|read| read.len() <= most).unwrap_or_else(|| {
        let name = std::env::current_exe().unwrap_or_default();
        eprintln!("usage: {} {usage}", name.file_stem().unwrap_or_default().to_string_lossy());
        std::process::exit(2)
    })
}

/// For examples without arguments.
pub fn no_arguments() {
    arguments::<String>("(without arguments)", 0);
}

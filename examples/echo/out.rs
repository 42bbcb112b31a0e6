//! What is printed. Whoever reads it may have gone (`echo load ... | head -1`): then there is
//! nobody to tell, and the work goes on.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Prints text as it is.
pub fn text(text: impl Display) {
    let mut out = io::stdout().lock();
    // At once, also into a pipe: who waits for "listening on" must see it.
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line.
pub fn line(line: impl Display) {
    text(format_args!("{line}\n"));
}

/// Prints a line on the standard error.
pub fn error(what: impl Display) {
    let _ = writeln!(io::stderr(), "error: {what}");
}

/// A line that tells how far the work has come: written over and over on a terminal, a new one
/// each second elsewhere.
pub struct Live {
    terminal: bool,
    /// Characters on the terminal's line now.
    width: usize,
}

impl Live {
    pub fn new() -> Self {
        Self { terminal: io::stdout().is_terminal(), width: 0 }
    }

    /// How often to show something.
    pub fn period(&self) -> Duration {
        Duration::from_millis(if self.terminal { 200 } else { 1000 })
    }

    pub fn show(&mut self, what: &str) {
        if self.terminal {
            // Blanks over what is left of a longer line before it.
            text(format_args!("\r{what:<width$}", width = self.width));
            self.width = what.chars().count();
        } else {
            line(what);
        }
    }

    /// Leaves the terminal's line empty, for what is printed next.
    pub fn clear(&mut self) {
        if self.width > 0 {
            text(format_args!("\r{:width$}\r", "", width = self.width));
            self.width = 0;
        }
    }
}

//! Colours on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
//!
//! A coloured text must be printed by [`print`](super::print) or [`tell!`](crate::tell), which know the colours of this
//! process from those in foreign text.

use super::safe;
use std::fmt;
use std::io::IsTerminal;

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    on: bool,
}

impl Style {
    /// No colours.
    pub const PLAIN: Self = Self { on: false };

    /// Colours if standard output is a terminal.
    pub fn of_stdout() -> Self {
        Self::wanted(std::io::stdout().is_terminal())
    }

    /// Colours if standard error is a terminal.
    pub fn of_stderr() -> Self {
        Self::wanted(std::io::stderr().is_terminal())
    }

    fn wanted(terminal: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { on: terminal && !refused }
    }

    pub fn is_on(self) -> bool {
        self.on
    }

    pub fn bold(self, text: impl fmt::Display) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: impl fmt::Display) -> String {
        self.paint("2", text)
    }

    pub fn good(self, text: impl fmt::Display) -> String {
        self.paint("32", text)
    }

    pub fn warning(self, text: impl fmt::Display) -> String {
        self.paint("33", text)
    }

    pub fn bad(self, text: impl fmt::Display) -> String {
        self.paint("31", text)
    }

    /// The texts before and after a found word.
    pub fn around_found(self) -> (String, String) {
        self.around("1;33")
    }

    fn around(self, code: &str) -> (String, String) {
        let sequence = |code: &str| if self.on { format!("{}[{code}m", safe::mark()) } else { String::new() };
        (sequence(code), sequence("0"))
    }

    fn paint(self, code: &str, text: impl fmt::Display) -> String {
        let (begins, ends) = self.around(code);
        format!("{begins}{text}{ends}")
    }
}

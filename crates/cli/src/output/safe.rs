//! Foreign text that is safe to print.
//!
//! Texts come from other nodes, files and programs: the last words of a failed command, reasons, names, payloads. A terminal
//! obeys escape sequences in them: they recolour and clear the screen, set its title, and hide lines. So this is the one
//! place that makes text printable, and everything that the command prints passes through it: [`print`](super::print),
//! [`tell!`](crate::tell), [`Lines`](super::lines::Lines) and the cells of [`Table`](super::table::Table). Clippy refuses
//! `println!` and `eprintln!` in this crate.
//!
//! Invariants:
//!
//! - **No control character is printed raw** except line ends and tabs: neither those of ASCII nor U+0080 to U+009F, which some
//!   terminals obey too. They are shown as in Rust's texts, `\u{1b}`, and as `\u001b` in JSON, where that is the same value.
//! - **Colours are the command's own.** [`Style`](super::style::Style) begins a sequence with a character for private use
//!   that each process draws at random, and only that character becomes an escape, if a colour follows. The writer of a
//!   foreign text does not know it.

use std::borrow::Cow;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// The first character for private use that may begin a colour, and the number of them: those of plane 15.
const MARKS: (u32, u64) = (0xF_0000, 0xFFFE);

/// The character with which this process begins a colour.
pub(super) fn mark() -> char {
    static MARK: OnceLock<char> = OnceLock::new();
    *MARK.get_or_init(|| {
        let (first, count) = MARKS;
        let drawn = u32::try_from(RandomState::new().hash_one(()) % count).unwrap_or_default();
        char::from_u32(first + drawn).expect("invariant: plane 15 has characters for private use only")
    })
}

/// Makes a text of any lines printable, with the colours of [`Style`](super::style::Style).
pub(crate) fn text(given: &str) -> Cow<'_, str> {
    let mark = mark();
    if !given.chars().any(|c| c == mark || is_obeyed(c)) {
        return Cow::Borrowed(given);
    }
    let mut safe = String::with_capacity(given.len() + 16);
    for (at, c) in given.char_indices() {
        let rest = &given[at + c.len_utf8()..];
        match c {
            c if c == mark && begins_colour(rest) => safe.push('\u{1b}'),
            // The line ends, so nothing is written over.
            '\r' if rest.starts_with('\n') => safe.push(c),
            c if is_obeyed(c) => safe.extend(c.escape_debug()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Makes a text printable on one line.
pub(crate) fn line(given: &str) -> Cow<'_, str> {
    if !given.contains(char::is_control) {
        return Cow::Borrowed(given);
    }
    let mut safe = String::with_capacity(given.len() + 16);
    for c in given.chars() {
        if c.is_control() { safe.extend(c.escape_debug()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Escapes the control characters that JSON allows in texts. The value stays the same.
pub(crate) fn json(given: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| ('\u{7f}'..='\u{9f}').contains(&c);
    if !given.contains(is_allowed) {
        return Cow::Borrowed(given);
    }
    let mut safe = String::with_capacity(given.len() + 16);
    for c in given.chars() {
        if is_allowed(c) {
            // Writing to a text does not fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// True for characters that do more on a terminal than to end a line or to leave room.
fn is_obeyed(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// True if a text goes on as the sequence of a colour does: `[`, numbers, `m`.
fn begins_colour(rest: &str) -> bool {
    let numbers = rest.strip_prefix('[').and_then(|rest| rest.split_once('m')).map(|(numbers, _)| numbers);
    numbers.is_some_and(|numbers| numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A screen cleared, a title set, a colour, a bell, a line written over, and the one-character form of `ESC [`.
    const HOSTILE: &str = "a\u{1b}[2Jb\u{1b}]0;title\u{7}c\u{1b}[31md\re\u{9b}2Jf\u{7f}é\n\tg\r\n";

    #[test]
    fn control_characters_are_shown_and_lines_stay_lines() {
        let shown = text(HOSTILE);
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{1b}]0;title\\u{7}c\\u{1b}[31md\\re\\u{9b}2Jf\\u{7f}é\n\tg\r\n");
        assert_eq!(line("a\n\u{1b}[2J\tb"), "a\\n\\u{1b}[2J\\tb");
        assert!(matches!(text("plain: é 日本語\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "a": HOSTILE });
        let written = value.to_string();
        let shown = json(&written);
        assert!(!shown.contains(char::is_control), "{shown}");
        assert!(shown.contains(r"\u009b2Jf\u007fé"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn only_colours_follow_the_mark() {
        let mark = mark();
        assert_eq!(text(&format!("{mark}[1;33mx{mark}[0m")), "\u{1b}[1;33mx\u{1b}[0m");
        let guessed = format!("{mark}[2J{mark}]0;title{mark}");
        assert!(!text(&guessed).contains('\u{1b}'));
    }
}

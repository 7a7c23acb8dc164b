//! Output of answers: JSON for scripts, tables and trees for people.
//!
//! All output goes through [`print()`] and `tell!`, which make foreign text printable (`safe.rs`).

pub mod explain;
pub mod lines;
pub mod safe;
pub mod style;
pub mod table;

pub use treefold_forms::{json, packet, rounded, value};

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Format of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people: aligned, and coloured on a terminal unless `NO_COLOR` is set.
    #[default]
    Text,
    /// For scripts: one JSON value per answer.
    Json,
}

impl Format {
    /// Finds the requested format in arguments that could not be parsed.
    pub fn asked_for_in(arguments: impl Iterator<Item = String>) -> Self {
        let mut named = false;
        for argument in arguments.take_while(|argument| argument != "--") {
            let value = ["--output=", "-o="].iter().find_map(|flag| argument.strip_prefix(flag));
            if (named && argument == "json") || value == Some("json") || argument == "-ojson" {
                return Self::Json;
            }
            named = argument == "-o" || argument == "--output";
        }
        Self::Text
    }
}

/// Prints a line, or several.
///
/// If the reader closes the pipe early (`treefold … | head`), the command ends without an error.
pub fn print(line: impl fmt::Display) {
    let line = line.to_string();
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = writeln!(stdout, "{}", safe::text(&line)).and_then(|()| stdout.flush()) {
        let enough = error.kind() == std::io::ErrorKind::BrokenPipe;
        if !enough {
            crate::tell!("treefold: can't write to standard output: {error}");
        }
        std::process::exit(i32::from(!enough));
    }
}

/// Prints a value as one line of JSON.
pub fn print_json(value: &impl Serialize) {
    let text = serde_json::to_string(value)
        .expect("invariant: printed values have string keys and no failing parts");
    print(safe::json(&text));
}

/// Prints a line to standard error; [`tell!`](crate::tell) formats it. If nobody reads, the line is lost.
pub fn tell(line: fmt::Arguments<'_>) {
    let line = line.to_string();
    let _ = writeln!(std::io::stderr().lock(), "{}", safe::text(&line));
}

/// Prints a line to standard error, as `eprintln!` does, with foreign text made printable.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::output::tell(format_args!($($words)*))
    };
}

/// Returns the columns of the terminal on standard output; `None` if it is not a terminal.
pub fn terminal_columns() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Formats a duration with about three digits and a suitable unit.
pub fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (figure, unit) = match seconds {
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s => (s / 3_600.0, "h"),
    };
    match figure {
        f if f >= 100.0 => format!("{f:.0} {unit}"),
        f if f >= 10.0 => format!("{f:.1} {unit}"),
        f => format!("{f:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Format {
        Format::asked_for_in(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn format_is_found_in_invalid_arguments() {
        assert_eq!(asked("call --nonsense -o json"), Format::Json);
        assert_eq!(asked("-ojson call"), Format::Json);
        assert_eq!(asked("call --output=json"), Format::Json);
        assert_eq!(asked("call -o text json"), Format::Text);
        assert_eq!(asked("call -- -o json"), Format::Text);
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(short(Duration::from_micros(3)), "3.00 µs");
        assert_eq!(short(Duration::from_micros(1_234)), "1.23 ms");
        assert_eq!(short(Duration::from_millis(250)), "250 ms");
        assert_eq!(short(Duration::from_secs(12)), "12.0 s");
        assert_eq!(short(Duration::from_millis(999_851)), "16.7 min");
        assert_eq!(short(Duration::from_secs(36_000)), "10.0 h");
    }
}

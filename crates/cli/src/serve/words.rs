//! The parts of an argument of `--serve`: `KIND[=SUBJECT]:KEY=VALUE:…`.
//!
//! Keys are read from the end. A colon that no known key follows belongs to the value before it, so folders and command
//! lines may contain colons.

use super::kind::{KINDS, Kind};
use crate::parse;
use std::path::PathBuf;
use treefold::{CallError, PartitionSet};

/// The parts of one argument.
pub(super) struct Words<'a> {
    text: &'a str,
    form: &'static str,
    numbered_by: &'static str,
    /// The text after the kind: a folder, a file, a feed, a name.
    subject: Option<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    /// Splits an argument of this kind. Refuses other kinds' keys, and keys that are given twice.
    pub(super) fn split(text: &'a str, kind: &'static dyn Kind) -> Result<Self, CallError> {
        let own = |key: &&str| *key == kind.numbered_by() || kind.keys().contains(key);
        let keys: Vec<&str> = if kind.has_free_text() {
            std::iter::once(kind.numbered_by()).chain(kind.keys().iter().copied()).collect()
        } else {
            KINDS.iter().flat_map(|kind| kind.keys()).copied().chain(["partitions", "endpoints"]).collect()
        };
        let (head, options) = split_options(text, &keys);
        let subject = head.split_once('=').map(|(_, subject)| subject);
        let words = Self { text, form: kind.form(), numbered_by: kind.numbered_by(), subject, options };
        if let Some((key, _)) = words.options.iter().find(|(key, _)| !own(key)) {
            return Err(words.refuse(&format!("{}, without {key}", kind.form())));
        }
        let mut given = words.options.iter().enumerate();
        let twice = given.find(|&(at, (key, _))| words.options[..at].iter().any(|(other, _)| other == key));
        match twice {
            Some((_, (key, _))) => Err(words.refuse(&format!("each key once; {key} is given twice"))),
            None => Ok(words),
        }
    }

    /// The value of a key.
    pub(super) fn of(&self, key: &str) -> Option<&'a str> {
        self.options.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// The path that a key gives.
    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        self.of(key).map(PathBuf::from)
    }

    /// The value of a key, as a number.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        key: &str,
        limit: &str,
    ) -> Result<Option<T>, CallError> {
        self.of(key).map(|text| parse::named(key, text, limit)).transpose()
    }

    /// The bytes that a key gives: `4096`, `64K`, `16M`, `2G`.
    pub(super) fn bytes(
        &self,
        key: &str,
        allowed: std::ops::RangeInclusive<u64>,
        limit: &str,
    ) -> Result<Option<u64>, CallError> {
        let read = |text: &str| {
            let bytes = bytes_of(text).filter(|bytes| allowed.contains(bytes));
            bytes.ok_or_else(|| CallError::bad_field(key, text, limit))
        };
        self.of(key).map(read).transpose()
    }

    /// The name that the key `name` gives to the service.
    pub(super) fn service_name(&self) -> Result<Option<String>, CallError> {
        match self.of("name") {
            Some(name) if !is_service_name(name) => {
                Err(CallError::bad_field("name", name, "letters, digits and -_."))
            }
            name => Ok(name.map(str::to_owned)),
        }
    }

    /// The subject, which must be there.
    pub(super) fn subject(&self) -> Result<&'a str, CallError> {
        self.subject.filter(|subject| !subject.is_empty()).ok_or_else(|| self.refuse(self.form))
    }

    /// Refuses a subject.
    pub(super) fn without_subject(&self) -> Result<(), CallError> {
        self.subject.map_or(Ok(()), |_| Err(self.refuse(self.form)))
    }

    /// The partitions, and their total if it is given.
    pub(super) fn partitions(&self) -> Result<(PartitionSet, Option<u32>), CallError> {
        let given = self.of(self.numbered_by).ok_or_else(|| self.refuse(self.form))?;
        parse::partitions_of_total(given)
    }

    /// The error for this argument.
    pub(super) fn refuse(&self, limit: &str) -> CallError {
        CallError::bad_field("serve", self.text, limit)
    }
}

/// True for a name that a service may have.
pub(super) fn is_service_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
}

/// Parses a number of bytes.
fn bytes_of(text: &str) -> Option<u64> {
    let unit = [('K', 10), ('M', 20), ('G', 30)];
    let unit = unit.iter().find_map(|&(unit, bits)| text.strip_suffix(unit).map(|digits| (digits, bits)));
    let (digits, bits) = unit.unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << bits)
}

/// Splits an argument into the part before the first option, and the options.
fn split_options<'a>(text: &'a str, keys: &[&str]) -> (&'a str, Vec<(&'a str, &'a str)>) {
    let (mut head, mut options) = (text, Vec::new());
    let mut end = text.len();
    while let Some(at) = text[..end].rfind(':') {
        let option = text[at + 1..head.len()].split_once('=');
        if let Some((key, value)) = option.filter(|(key, _)| keys.contains(key)) {
            options.push((key, value));
            head = &text[..at];
        }
        end = at;
    }
    (head, options)
}

//! The workload, the same for all systems: keys, events with opaque bodies, and rules.
//!
//! The body of an event begins with the time at which it was due, and its number, as text of 16 hexadecimal digits each. Text passes
//! through JSON as it is, so no system has to encode it.

use crate::Problem;
use bytestring::ByteString;
use clap::Args;
use std::sync::Arc;
use treefold_mirror::rules::RuleFile;

/// Bytes of the two numbers at the beginning of a body.
pub(crate) const HEAD_BYTES: usize = 32;
/// The incoming stream of all events.
pub(crate) const STREAM: &str = "feed";
/// The type of all events.
pub(crate) const KIND: &str = "position";
/// The rules, where a system has rules: of a run of 20 events of a key, the first and the last.
const RULES: &str =
    "[[rule]]\nname = 'run'\noverwrite = { type = 'position', run = 20, max_age_ms = 1000 }\n";

/// The shape of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct Work {
    /// Number of keys
    #[arg(long, default_value_t = 6_000)]
    pub(crate) keys: u32,
    /// Bytes of an event's body
    #[arg(long, default_value_t = 100)]
    pub(crate) bytes: usize,
}

impl Work {
    pub(crate) fn words(self) -> Vec<String> {
        vec!["--keys".to_owned(), self.keys.to_string(), "--bytes".to_owned(), self.bytes.to_string()]
    }
}

/// The rules of a run.
pub(crate) fn rules(is_selective: bool, every_events: Option<u64>) -> Result<Arc<RuleFile>, Problem> {
    let mut text = if is_selective { RULES.to_owned() } else { String::new() };
    if let Some(every) = every_events {
        text += &format!("[checkpoint]\nevery_events = {every}\n");
    }
    let read = RuleFile::read(&text);
    Ok(Arc::new(read.map_err(|problems| format!("the benchmark's rules are invalid: {problems:?}"))?))
}

/// Makes events: each of a key drawn at random.
#[derive(Debug)]
pub(crate) struct Events {
    keys: Vec<ByteString>,
    body: Vec<u8>,
    number: u64,
    random: u64,
}

/// An event. Its body is borrowed, so that a system that writes it to a buffer at once copies it only once.
#[derive(Debug)]
pub(crate) struct Made<'a> {
    pub(crate) key: &'a ByteString,
    pub(crate) number: u64,
    pub(crate) body: &'a [u8],
}

impl Events {
    pub(crate) fn new(work: Work) -> Self {
        let keys = (0..work.keys).map(|key| format!("k{key:06}").into()).collect();
        let body = (0..work.bytes.max(HEAD_BYTES)).map(|at| b'a' + (at % 26) as u8).collect();
        Self { keys, body, number: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// The next event, which was due at this time.
    pub(crate) fn next(&mut self, due_ns: u64) -> Made<'_> {
        // Marsaglia's xorshift; the high bits choose the key.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let key = (u128::from(self.random) * self.keys.len() as u128) >> 64;
        self.of_key(key as usize, due_ns)
    }

    /// An event of a given key.
    pub(crate) fn of_key(&mut self, key: usize, due_ns: u64) -> Made<'_> {
        self.number += 1;
        put_hex(due_ns, &mut self.body[..16]);
        put_hex(self.number, &mut self.body[16..HEAD_BYTES]);
        Made { key: &self.keys[key], number: self.number, body: &self.body }
    }
}

fn put_hex(number: u64, out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (at, digit) in out.iter_mut().enumerate() {
        *digit = DIGITS[(number >> (60 - 4 * at)) as usize & 15];
    }
}

/// The time at which an event was due, from its body. 0 if it has none.
pub(crate) fn due_ns(body: &[u8]) -> u64 {
    hex(body.get(..16).unwrap_or_default())
}

fn hex(digits: &[u8]) -> u64 {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => 0,
    };
    digits.iter().fold(0, |number, &digit| number << 4 | u64::from(value(digit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_bears_its_time_and_number() {
        let mut events = Events::new(Work { keys: 10, bytes: 100 });
        for count in 1..=100 {
            let made = events.next(0x0123_4567_89ab_cdef - count);
            assert_eq!(due_ns(made.body), 0x0123_4567_89ab_cdef - count);
            assert_eq!((hex(&made.body[16..HEAD_BYTES]), made.number, made.body.len()), (count, count, 100));
        }
        let made = events.of_key(7, 5);
        assert_eq!((&**made.key, due_ns(made.body)), ("k000007", 5));
        assert_eq!(due_ns(b""), 0);
    }

    #[test]
    fn rules_of_the_benchmark_are_valid() {
        assert_eq!(rules(true, Some(100)).unwrap().rules.len(), 1);
        assert!(rules(false, None).unwrap().rules.is_empty());
    }
}

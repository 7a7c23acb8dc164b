//! Finds ranges: writes a row of processes as `node[01-16]:[0-3]`.
//!
//! First, consecutive numbers on one host become a range of numbers. Then consecutive hosts with the same
//! range of numbers become a range of hosts. The range expands to exactly the original row in its order,
//! because in [`super::host`] the last bracket, that of the numbers, counts fastest.

use super::Process;
use super::host::width_of;
use std::fmt::Write;

/// The most digits of a number in a range. A longer one is rather part of a name.
const DIGITS_MAX: usize = 18;

/// A text and the number of processes that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) text: String,
    pub(super) count: usize,
}

/// Writes a row of processes as the fewest texts of neighbours.
pub(super) fn runs_of<'a>(row: impl Iterator<Item = &'a Process>) -> Vec<Run> {
    let mut runs: Vec<Hosts<'a>> = Vec::new();
    for numbers in numbers_of(row) {
        if runs.last_mut().is_none_or(|last| !last.take(&numbers)) {
            runs.push(Hosts::new(numbers));
        }
    }
    runs.into_iter().map(Hosts::run).collect()
}

/// Processes of one host with consecutive numbers.
#[derive(Clone, Copy)]
struct Numbers<'a> {
    host: &'a str,
    first: u32,
    last: u32,
}

fn numbers_of<'a>(row: impl Iterator<Item = &'a Process>) -> Vec<Numbers<'a>> {
    let mut all: Vec<Numbers<'a>> = Vec::new();
    for process in row {
        match all.last_mut() {
            Some(last) if *last.host == *process.host && last.last.checked_add(1) == Some(process.index) => {
                last.last = process.index;
            }
            _ => all.push(Numbers { host: &process.host, first: process.index, last: process.index }),
        }
    }
    all
}

/// Consecutive hosts with the same numbers on each.
struct Hosts<'a> {
    of_first: Numbers<'a>,
    hosts: u64,
    /// The part of the name that counts; unknown while there is only one host.
    counter: Option<Counter<'a>>,
}

/// The part of a name that differs between neighbours.
struct Counter<'a> {
    before: &'a str,
    after: &'a str,
    first: u64,
    width: usize,
}

impl<'a> Hosts<'a> {
    fn new(numbers: Numbers<'a>) -> Self {
        Self { of_first: numbers, hosts: 1, counter: None }
    }

    /// Adds the next host if it is consecutive. Returns whether it is.
    fn take(&mut self, next: &Numbers<'a>) -> bool {
        if (next.first, next.last) != (self.of_first.first, self.of_first.last) {
            return false;
        }
        let follows = match &self.counter {
            Some(counter) => counter.reads(next.host, counter.first + self.hosts),
            None => {
                self.counter = Counter::between(self.of_first.host, next.host);
                self.counter.is_some()
            }
        };
        self.hosts += u64::from(follows);
        follows
    }

    fn run(self) -> Run {
        let Numbers { host, first, last } = self.of_first;
        let mut text = match &self.counter {
            Some(counter) => counter.range(self.hosts),
            None if host.contains(':') => format!("[{host}]"),
            None => host.to_owned(),
        };
        let numbers = u64::from(last - first) + 1;
        let written = if numbers == 1 { write!(text, ":{first}") } else { write!(text, ":[{first}-{last}]") };
        written.expect("invariant: writing to a String never fails");
        Run { text, count: (self.hosts * numbers) as usize }
    }
}

impl<'a> Counter<'a> {
    /// The difference between one name and the next: a number that is larger by one.
    fn between(host: &'a str, next: &str) -> Option<Self> {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let same = host.bytes().zip(next.bytes()).take_while(|(a, b)| a == b).count();
        // The whole number and not only its last digits. A name cannot begin with a range, and an address
        // cannot contain one.
        let digits_before = host.as_bytes()[..same].iter().rev().take_while(|byte| is_digit(byte)).count();
        let start = same - digits_before;
        let length = host.as_bytes()[start..].iter().take_while(|byte| is_digit(byte)).count();
        if start == 0 || !(1..=DIGITS_MAX).contains(&length) || host.contains(':') {
            return None;
        }
        let digits = &host[start..start + length];
        let counter = Self {
            before: &host[..start],
            after: &host[start + length..],
            first: digits.parse().ok()?,
            width: width_of(digits),
        };
        counter.reads(next, counter.first + 1).then_some(counter)
    }

    /// Whether `host` is this name with the given number.
    fn reads(&self, host: &str, number: u64) -> bool {
        let middle = host.strip_prefix(self.before).and_then(|rest| rest.strip_suffix(self.after));
        middle.is_some_and(|digits| {
            let Self { width, .. } = *self;
            digits.len() <= DIGITS_MAX && digits == format!("{number:0width$}")
        })
    }

    fn range(&self, hosts: u64) -> String {
        let Self { before, after, first, width } = *self;
        format!("{before}[{first:0width$}-{:0width$}]{after}", first + hosts - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Role;

    fn runs(names: &str) -> String {
        let row: Vec<Process> = names
            .split(' ')
            .map(|name| {
                let (host, index) = name.rsplit_once(':').unwrap();
                Process { host: host.into(), index: index.parse().unwrap(), role: Role::BackEnd, size: 1 }
            })
            .collect();
        let runs = runs_of(row.iter());
        assert_eq!(runs.iter().map(|run| run.count).sum::<usize>(), row.len());
        runs.into_iter().map(|run| run.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn neighbours_become_ranges() {
        assert_eq!(runs("n08:0 n09:0 n10:0"), "n[08-10]:0");
        assert_eq!(runs("n9:0 n10:0 n11:0"), "n[9-11]:0");
        assert_eq!(runs("n99:0 n100:0"), "n[99-100]:0");
        assert_eq!(runs("n09:0 n10:0 n11:0 n99:0"), "n[09-11]:0 n99:0");
        assert_eq!(runs("r1n1.lan:0 r1n2.lan:0 r2n1.lan:0"), "r1n[1-2].lan:0 r2n1.lan:0");
        assert_eq!(runs("10.0.0.1:0 10.0.0.2:0"), "10.0.0.[1-2]:0");
    }

    #[test]
    fn processes_of_one_host_become_ranges_first() {
        assert_eq!(runs("n1:0 n1:1 n2:0 n2:1 n3:0"), "n[1-2]:[0-1] n3:0");
        assert_eq!(runs("n1:0 n2:0 n1:1 n2:1"), "n[1-2]:0 n[1-2]:1");
        assert_eq!(runs("h:0 h:2 h:3"), "h:0 h:[2-3]");
    }

    #[test]
    fn names_without_a_common_range_stay_apart() {
        assert_eq!(runs("a:0 b:0"), "a:0 b:0");
        assert_eq!(runs("n1:0 n3:0"), "n1:0 n3:0");
        assert_eq!(runs("n2:0 n1:0"), "n2:0 n1:0");
        assert_eq!(runs("n1:0 n02:0"), "n1:0 n02:0", "ranges keep one width");
        assert_eq!(runs("1a:0 2a:0"), "1a:0 2a:0", "a name cannot begin with a range");
        assert_eq!(runs("fe80::1:0 fe80::2:0"), "[fe80::1]:0 [fe80::2]:0");
        assert_eq!(runs("n1x1:0 n2x2:0"), "n1x1:0 n2x2:0", "only one number may count");
    }
}

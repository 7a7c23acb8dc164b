//! Hosts: valid names, ranges of names, and lists of hosts with their slots.
//!
//! A range has the notation of job managers: `node[01-16]`, `rack[1-2]node[1-4,7]`. If the first number
//! begins with a zero, all numbers have its width. The last bracket counts fastest.
//!
//! A name becomes part of an `ssh` command line. It must begin with a letter or a digit, so that a topology
//! file cannot inject an option. MRNet has the same rule. An IPv6 address is written in its own brackets:
//! `[fe80::1]`.

use super::problem::{Findings, ProblemKind, Problems, Span};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// The most bytes of a host's name: the limit of DNS.
pub const HOST_BYTES_MAX: usize = 253;
/// The most hosts in one list.
pub const HOSTS_MAX: usize = 65_536;
/// The most slots in one mention of a host.
pub const SLOTS_MAX: u32 = 65_536;
/// The most digits of a number in a range.
const RANGE_DIGITS_MAX: usize = 18;

/// An error in a name, a number, or a range of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("it is empty")]
    Empty,
    /// The name is too long.
    #[error("it has {bytes} bytes; allowed: {limit}")]
    TooLong {
        /// The name's length.
        bytes: usize,
        /// The longest allowed length.
        limit: usize,
    },
    /// The first character is neither a letter nor a digit.
    #[error("it begins with `{}`; allowed: a letter or a digit", .0.escape_debug())]
    BadStart(char),
    /// A character that is not allowed in names.
    #[error("it contains `{}`; allowed: letters, digits, `-`, `.`, `_`", .0.escape_debug())]
    BadCharacter(char),
    /// The name has digits only, which `ssh` would interpret as an address.
    #[error("a name cannot consist of digits only")]
    DigitsOnly,
    /// The text in brackets is not an IPv6 address.
    #[error("a name that begins with a bracket must be an IPv6 address, as in [fe80::1]")]
    NotIpv6,
    /// A range without its closing bracket.
    #[error("`]` is missing")]
    UnclosedRange,
    /// `]` without its opening bracket.
    #[error("`]` closes no range")]
    UnopenedRange,
    /// The text in brackets is not a range.
    #[error("`{0}` is not a range, as in 01-16 or 1-4,7")]
    BadRange(String),
    /// The last number of a range is below the first.
    #[error("the range {0} runs backwards")]
    BackwardRange(String),
    /// The numbers of a range have different widths.
    #[error("the numbers of {0} differ in width; write zeros before both or before neither")]
    UnevenRange(String),
    /// The text is not a number.
    #[error("it must consist of digits only")]
    NotANumber,
    /// A number with leading zeros. It would be a second name of the same process.
    #[error("leading zeros are not allowed")]
    LeadingZero,
    /// The number exceeds the largest allowed number.
    #[error("the largest number is {0}")]
    TooLarge(u32),
}

/// Checks a host's name. An IPv6 address is given without its brackets.
///
/// # Errors
/// If the name is not valid.
pub fn check_host(name: &str) -> Result<(), NameError> {
    if name.contains(':') {
        return name.parse::<Ipv6Addr>().map(|_| ()).map_err(|_| NameError::NotIpv6);
    }
    let first = name.chars().next().ok_or(NameError::Empty)?;
    if !first.is_ascii_alphanumeric() {
        return Err(NameError::BadStart(first));
    }
    let known = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if let Some(strange) = name.chars().find(|&c| !known(c)) {
        return Err(NameError::BadCharacter(strange));
    }
    if name.len() > HOST_BYTES_MAX {
        return Err(NameError::TooLong { bytes: name.len(), limit: HOST_BYTES_MAX });
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NameError::DigitsOnly);
    }
    Ok(())
}

/// A name with or without ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Ranges, each with its first and last number and the least width of its numbers.
    Numbers(Vec<(u64, u64, usize)>),
}

impl Pattern {
    /// Parses a host or a range of hosts.
    pub(super) fn of_hosts(text: &str) -> Result<Self, NameError> {
        if let Some(rest) = text.strip_prefix('[') {
            let address = rest.strip_suffix(']').filter(|address| address.parse::<Ipv6Addr>().is_ok());
            let address = address.ok_or(NameError::NotIpv6)?;
            return Ok(Self { parts: vec![Part::Text(address.to_owned())] });
        }
        let pattern = Self::parse(text)?;
        // The names of one pattern differ in digits only. If the first and the widest name are valid, all
        // are.
        let [first, widest] = pattern.extremes();
        check_host(&first)?;
        check_host(&widest)?;
        Ok(pattern)
    }

    fn parse(text: &str) -> Result<Self, NameError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let (inside, after) = after.split_once(']').ok_or(NameError::UnclosedRange)?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::Numbers(inside.split(',').map(range).collect::<Result<_, _>>()?));
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        let closes_nothing = |part: &Part| matches!(part, Part::Text(text) if text.contains(']'));
        if parts.iter().any(closes_nothing) {
            return Err(NameError::UnopenedRange);
        }
        Ok(Self { parts })
    }

    /// Number of names.
    pub(super) fn count(&self) -> u64 {
        let of_part = |part: &Part| match part {
            Part::Text(_) => 1,
            Part::Numbers(ranges) => {
                ranges.iter().fold(0u64, |sum, (first, last, _)| sum.saturating_add(last - first + 1))
            }
        };
        self.parts.iter().fold(1, |product, part| product.saturating_mul(of_part(part)))
    }

    /// All names. The caller must check [`Self::count`] first.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = vec![String::new()];
        for part in &self.parts {
            names = match part {
                Part::Text(text) => names.into_iter().map(|name| name + text).collect(),
                Part::Numbers(ranges) => {
                    let numbers = || {
                        ranges.iter().flat_map(|&(first, last, width)| {
                            (first..=last).map(move |number| (number, width))
                        })
                    };
                    let continued = |name: String| {
                        numbers().map(move |(number, width)| format!("{name}{number:0width$}"))
                    };
                    names.into_iter().flat_map(continued).collect()
                }
            };
        }
        names
    }

    /// The first name and the name with the longest numbers.
    fn extremes(&self) -> [String; 2] {
        let written = |number: u64, width: usize| format!("{number:0width$}");
        let mut both = [String::new(), String::new()];
        for part in &self.parts {
            match part {
                Part::Text(text) => both.iter_mut().for_each(|name| name.push_str(text)),
                Part::Numbers(ranges) => {
                    let (first, _, width) = ranges[0];
                    both[0].push_str(&written(first, width));
                    let widest = ranges.iter().map(|&(_, last, width)| written(last, width));
                    both[1].push_str(&widest.max_by_key(String::len).unwrap_or_default());
                }
            }
        }
        both
    }
}

/// Parses `01-16` or a single number.
fn range(text: &str) -> Result<(u64, u64, usize), NameError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| {
        let plain = (1..=RANGE_DIGITS_MAX).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|_| plain).ok_or_else(|| NameError::BadRange(text.to_owned()))
    };
    let (from, to) = (number(first)?, number(last)?);
    let width = width_of(first);
    if from > to {
        return Err(NameError::BackwardRange(text.to_owned()));
    }
    if format!("{to:0width$}") != last {
        return Err(NameError::UnevenRange(text.to_owned()));
    }
    Ok((from, to, width))
}

/// The width that a number keeps: its length if it begins with an unnecessary zero, otherwise 0.
pub(super) fn width_of(digits: &str) -> usize {
    if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 }
}

/// Parses a process's number, or ranges of them as in `[0-3]`. Returns the first and last number of each
/// range.
pub(super) fn indexes(text: &str) -> Result<Vec<(u32, u32)>, NameError> {
    let one = |digits: &str| {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NameError::NotANumber);
        }
        if width_of(digits) > 0 {
            return Err(NameError::LeadingZero);
        }
        digits.parse::<u32>().map_err(|_| NameError::TooLarge(u32::MAX))
    };
    let Some(rest) = text.strip_prefix('[') else { return one(text).map(|index| vec![(index, index)]) };
    let inside = rest.strip_suffix(']').ok_or(NameError::UnclosedRange)?;
    let of_range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (one(first)?, one(last)?) {
            (first, last) if first <= last => Ok((first, last)),
            _ => Err(NameError::BackwardRange(text.to_owned())),
        }
    };
    inside.split(',').map(of_range).collect()
}

/// A host and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The host's name.
    pub name: Arc<str>,
    /// Slots of mentions with a number.
    slots: u32,
    /// Number of mentions without a number of slots.
    mentions: u32,
}

impl Host {
    /// A host that is mentioned once, without a number of slots.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check_host(name)?;
        Ok(Self { name: name.into(), slots: 0, mentions: 1 })
    }

    /// The host's slots, if a mention without a number counts `per_mention` slots.
    pub fn slots(&self, per_mention: u32) -> u32 {
        self.slots.saturating_add(self.mentions.saturating_mul(per_mention))
    }

    /// Whether every mention of the host gives a number of slots.
    pub fn is_counted(&self) -> bool {
        self.mentions == 0
    }
}

/// Parses a list of hosts: `node[01-16]:2 gpu[1,3]`, separated by commas, spaces or line ends, with `#`
/// comments. A number of slots may follow a host, in one of these forms:
///
/// | form | files of |
/// |---|---|
/// | `node1:4` | Treefold, MPICH and its descendants |
/// | `node1*4` | Slurm |
/// | `node1 slots=4 max_slots=8` | Open MPI; the upper bound is checked and not used, and the line ends behind them |
///
/// Keys are written in small letters or capitals.
/// A host that is listed twice, as in the files of PBS and LSF, has the slots of both mentions.
///
/// # Errors
/// All problems of the list.
pub fn parse_hosts(text: &str) -> Result<Vec<Host>, Problems> {
    let mut findings = Findings::new(text);
    let mut hosts: Vec<Host> = Vec::new();
    let mut known: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let mut mentioned = 0;
    let mut items = list_items(text).into_iter().peekable();
    while let Some(span) = items.next() {
        let mut item = list_item(&text[span.start..span.end]);
        let mut end = span.end;
        // Settings of Open MPI follow their host on its line.
        while let Some((next, given)) = items.peek().and_then(|&next| Some((next, setting(text, end, next)?)))
        {
            items.next();
            end = next.end;
            match (settled(given), &mut item) {
                (Err(kind), _) => findings.add(next, kind),
                (Ok(Some(slots)), Ok((_, known @ None))) => *known = Some(slots),
                (Ok(Some(_)), Ok((_, Some(_)))) => findings.add(next, ProblemKind::SlotsTwice),
                (Ok(None), _) | (Ok(Some(_)), Err(_)) => {}
            }
        }
        // Files with settings have a host a line, so a word behind them is another setting, or a mistake.
        let is_behind = |next: &Span| end > span.end && !text[end..next.start].contains(['\n', ',']);
        if let Some(next) = items.next_if(is_behind) {
            let word = text[next.start..next.end].to_owned();
            findings.add(next, ProblemKind::BehindSettings { word });
        }
        let (pattern, slots) = match item {
            Ok(item) => item,
            Err(kind) => {
                findings.add(span, kind);
                continue;
            }
        };
        mentioned = pattern.count().saturating_add(mentioned);
        if mentioned > HOSTS_MAX as u64 {
            findings.add(span, ProblemKind::TooManyHosts { limit: HOSTS_MAX });
            break;
        }
        for name in pattern.names() {
            let name: Arc<str> = name.into();
            let at = *known.entry(name.clone()).or_insert_with(|| {
                hosts.push(Host { name, slots: 0, mentions: 0 });
                hosts.len() - 1
            });
            match slots {
                Some(slots) => hosts[at].slots = hosts[at].slots.saturating_add(slots),
                None => hosts[at].mentions += 1,
            }
        }
    }
    if hosts.is_empty() && findings.is_empty() {
        findings.add(Span::WHOLE, ProblemKind::Empty);
    }
    findings.finish().map(|()| hosts)
}

/// Parses a host or range, and its slots if they are given.
fn list_item(item: &str) -> Result<(Pattern, Option<u32>), ProblemKind> {
    // A colon within brackets is part of an address.
    let end_of_name = item.rfind(']').unwrap_or(0);
    let sign = item[end_of_name..].find([':', '*']).map(|at| end_of_name + at);
    let (name, slots) = sign.map_or((item, None), |at| (&item[..at], Some(&item[at + 1..])));
    let pattern =
        Pattern::of_hosts(name).map_err(|why| ProblemKind::BadHost { host: name.to_owned(), why })?;
    Ok((pattern, slots.map(slots_of).transpose()?))
}

fn slots_of(digits: &str) -> Result<u32, ProblemKind> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let slots = digits.parse::<u32>().ok().filter(|slots| plain && (1..=SLOTS_MAX).contains(slots));
    slots.ok_or_else(|| ProblemKind::BadSlots { slots: digits.to_owned(), limit: SLOTS_MAX })
}

/// The key and the value of a setting, if the item is one and is on the line of the item that ends at `after`.
fn setting(text: &str, after: usize, item: Span) -> Option<(&str, &str)> {
    let is_on_its_line = !text[after..item.start].contains('\n');
    let (key, value) = text[item.start..item.end].split_once('=').filter(|_| is_on_its_line)?;
    let is_known = ["slots", "max_slots", "max-slots"].iter().any(|known| key.eq_ignore_ascii_case(known));
    is_known.then_some((key, value))
}

/// The slots that a setting gives its host. An upper bound gives none.
fn settled((key, value): (&str, &str)) -> Result<Option<u32>, ProblemKind> {
    slots_of(value).map(|slots| key.eq_ignore_ascii_case("slots").then_some(slots))
}

/// The items of a list: the texts between commas, spaces and line ends outside brackets, and before `#`.
fn list_items(text: &str) -> Vec<Span> {
    let mut items = Vec::new();
    let (mut start, mut in_brackets, mut in_comment) = (None, false, false);
    for (at, character) in text.char_indices() {
        let separates = character.is_whitespace() || character == ',' && !in_brackets || character == '#';
        if in_comment {
            in_comment = character != '\n';
        } else if separates {
            items.extend(start.take().map(|start| Span { start, end: at }));
            (in_brackets, in_comment) = (false, character == '#');
        } else {
            start.get_or_insert(at);
            in_brackets = character == '[' || in_brackets && character != ']';
        }
    }
    items.extend(start.map(|start| Span { start, end: text.len() }));
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str) -> Vec<String> {
        Pattern::of_hosts(pattern).unwrap().names()
    }

    fn refused(pattern: &str) -> NameError {
        Pattern::of_hosts(pattern).unwrap_err()
    }

    #[test]
    fn a_range_keeps_its_zeros_and_the_last_bracket_counts_fastest() {
        assert_eq!(names("node[08-11]"), ["node08", "node09", "node10", "node11"]);
        assert_eq!(names("n[9-10]"), ["n9", "n10"]);
        assert_eq!(names("n[098-101]"), ["n098", "n099", "n100", "n101"]);
        assert_eq!(
            names("r[1-2]n[1,3-4].lan").join(" "),
            "r1n1.lan r1n3.lan r1n4.lan r2n1.lan r2n3.lan r2n4.lan"
        );
        assert_eq!(names("10.0.0.[1-2]"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(names("localhost"), ["localhost"]);
        assert_eq!(names("[fe80::1]"), ["fe80::1"]);
    }

    #[test]
    fn a_large_range_is_counted_without_being_written_out() {
        assert_eq!(Pattern::of_hosts("n[1-999999999]").unwrap().count(), 999_999_999);
        let huge = "n[0-999999999999999999][0-999999999999999999]";
        assert_eq!(Pattern::of_hosts(huge).unwrap().count(), u64::MAX);
    }

    #[test]
    fn invalid_host_names_are_refused_with_the_reason() {
        assert_eq!(refused(""), NameError::Empty);
        assert_eq!(refused("-oProxyCommand"), NameError::BadStart('-'));
        assert_eq!(refused("nöde"), NameError::BadCharacter('ö'));
        assert_eq!(refused("17"), NameError::DigitsOnly);
        assert_eq!(refused("1[2-3]"), NameError::DigitsOnly);
        assert_eq!(refused("[01-16]"), NameError::NotIpv6);
        assert_eq!(refused("node[1-2"), NameError::UnclosedRange);
        assert_eq!(refused("node1]"), NameError::UnopenedRange);
        assert_eq!(refused("node[]"), NameError::BadRange(String::new()));
        assert_eq!(refused("node[1-b]"), NameError::BadRange("1-b".into()));
        assert_eq!(refused("node[4-2]"), NameError::BackwardRange("4-2".into()));
        assert_eq!(refused("node[01-9]"), NameError::UnevenRange("01-9".into()));
        assert_eq!(refused("node[1-09]"), NameError::UnevenRange("1-09".into()));
        assert!(matches!(refused(&"n".repeat(254)), NameError::TooLong { bytes: 254, .. }));
        assert!(matches!(refused(&format!("{}[1-100]", "n".repeat(251))), NameError::TooLong { .. }));
    }

    #[test]
    fn process_numbers_have_one_notation() {
        assert_eq!(indexes("7"), Ok(vec![(7, 7)]));
        assert_eq!(indexes("[0-3,8]"), Ok(vec![(0, 3), (8, 8)]));
        assert_eq!(indexes("07"), Err(NameError::LeadingZero));
        assert_eq!(indexes("x"), Err(NameError::NotANumber));
        assert_eq!(indexes("4294967296"), Err(NameError::TooLarge(u32::MAX)));
        assert_eq!(indexes("[3-1]"), Err(NameError::BackwardRange("3-1".into())));
        assert_eq!(indexes("[1"), Err(NameError::UnclosedRange));
    }

    #[test]
    fn lists_come_in_one_line_or_in_many() {
        let slots = |text: &str, each| -> Vec<(String, u32)> {
            let hosts = parse_hosts(text).unwrap();
            hosts.iter().map(|host| (host.name.to_string(), host.slots(each))).collect()
        };
        let given = |pairs: &[(&str, u32)]| -> Vec<(String, u32)> {
            pairs.iter().map(|&(name, slots)| (name.to_owned(), slots)).collect()
        };
        assert_eq!(slots("a,b[1-2]:4", 1), given(&[("a", 1), ("b1", 4), ("b2", 4)]));
        assert_eq!(slots("# hosts\na:2 # two\n\nb\n", 3), given(&[("a", 2), ("b", 3)]));
        assert_eq!(slots("[::1]:8, [fe80::2]", 1), given(&[("::1", 8), ("fe80::2", 1)]));
    }

    #[test]
    fn node_files_of_job_managers_are_lists() {
        let slots = |text: &str| -> Vec<(String, u32)> {
            let hosts = parse_hosts(text).unwrap();
            hosts.iter().map(|host| (host.name.to_string(), host.slots(1))).collect()
        };
        let given = |pairs: &[(&str, u32)]| -> Vec<(String, u32)> {
            pairs.iter().map(|&(name, slots)| (name.to_owned(), slots)).collect()
        };
        let open_mpi =
            "# rack 1\naa slots=4\nbb slots=2 max_slots=8 # two\r\ncc max-slots=3\ndd\naa slots=1\n";
        assert_eq!(slots(open_mpi), given(&[("aa", 5), ("bb", 2), ("cc", 1), ("dd", 1)]));
        assert_eq!(slots("aa SLOTS=2 Max_Slots=8\nbb\n"), given(&[("aa", 2), ("bb", 1)]));
        assert_eq!(slots("aa slots=2, bb slots=3"), given(&[("aa", 2), ("bb", 3)]));
        assert_eq!(slots("aa:2\nbb:4\n"), given(&[("aa", 2), ("bb", 4)]), "MPICH");
        assert_eq!(slots("n[1-2]*4\nlogin\n"), given(&[("n1", 4), ("n2", 4), ("login", 1)]), "Slurm");
        assert_eq!(slots("n[01-02,07]"), given(&[("n01", 1), ("n02", 1), ("n07", 1)]), "SLURM_JOB_NODELIST");
        assert_eq!(slots("a\na\nb\na\n"), given(&[("a", 3), ("b", 1)]), "PBS, LSF");
    }

    #[test]
    fn problems_of_a_list_have_their_place() {
        let told = |text: &str| parse_hosts(text).unwrap_err().first().to_string();
        assert_eq!(
            told("a\n b:0"),
            "line 2, column 2: `0` is not a valid number of slots; allowed: 1 to 65536"
        );
        let unknown = "is not a host name: it contains `=`; allowed: letters, digits, `-`, `.`, `_`";
        assert_eq!(told("a cpus=4"), format!("line 1, column 3: `cpus=4` {unknown}"));
        assert_eq!(told("a\nslots=4"), format!("line 2, column 1: `slots=4` {unknown}"));
        assert_eq!(
            told("a slots=x"),
            "line 1, column 3: `x` is not a valid number of slots; allowed: 1 to 65536"
        );
        assert_eq!(
            told("a slots=2\nb:2 slots=3"),
            "line 2, column 5: the host has a number of slots already"
        );
        assert_eq!(
            told("a\nb slots=2 foo"),
            "line 2, column 11: `foo` follows the settings of a host; allowed on its line: slots=N and max_slots=N"
        );
        assert_eq!(told(" # nobody\n"), "line 1, column 1: it contains no process or host");
        assert_eq!(told("a[1-70000]"), "line 1, column 1: more than 65536 hosts");
        assert_eq!(parse_hosts("a! b? c").unwrap_err().count(), 2);
    }
}

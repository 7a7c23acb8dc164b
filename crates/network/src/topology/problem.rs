//! Problems of a topology file or a list of hosts, and their places.
//!
//! People write and correct these files by hand. Every problem therefore names its line and column, and all
//! problems are reported at once. The number of reported problems is limited.

use super::host::NameError;
use std::fmt;

/// The most problems that are reported of one text. Further ones are only counted.
pub const PROBLEMS_MAX: usize = 20;

/// A place in a text. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column in it.
    pub column: usize,
    /// Number of marked characters; 0 for the whole text.
    pub width: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A problem of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place of the problem.
    pub place: Place,
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// A related place, and its description.
    pub beside: Option<(Place, String)>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)
    }
}

impl std::error::Error for Problem {}

/// The kinds of problems. Processes have their names as in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A character that is not valid here.
    #[error("`{}` is not valid here{}", .character.escape_debug(), hint_for(*.character))]
    UnknownToken {
        /// The character.
        character: char,
    },
    /// A token where another one is expected.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The expected token.
        expected: &'static str,
        /// The token found.
        found: String,
    },
    /// The file ends in the middle of a statement.
    #[error("the text ends in the middle of a statement: `;` is missing")]
    Unfinished,
    /// A child is followed by `=>`.
    #[error("{process} is a child in the statement before and a parent here; is a `;` missing before it?")]
    MissingSemicolon {
        /// The child.
        process: String,
    },
    /// A host without a process number.
    #[error("{host} lacks the number of the process on that host, as in {host}:0")]
    MissingIndex {
        /// The host.
        host: String,
    },
    /// A name that is not valid for a host.
    #[error("`{}` is not a host name: {why}", .host.escape_debug())]
    BadHost {
        /// The name.
        host: String,
        /// The reason.
        why: NameError,
    },
    /// A text that is not valid as a process number.
    #[error("`{}` is not a process number: {why}", .index.escape_debug())]
    BadIndex {
        /// The number.
        index: String,
        /// The reason.
        why: NameError,
    },
    /// A number of slots that is not valid.
    #[error("`{}` is not a valid number of slots; allowed: 1 to {limit}", .slots.escape_debug())]
    BadSlots {
        /// The number.
        slots: String,
        /// The most slots.
        limit: u32,
    },
    /// A second number of slots in one mention of a host.
    #[error("the host has a number of slots already")]
    SlotsTwice,
    /// A word behind a host's settings, on their line.
    #[error("`{}` follows the settings of a host; allowed on its line: slots=N and max_slots=N", .word.escape_debug())]
    BehindSettings {
        /// The word.
        word: String,
    },
    /// A range in a place where a single process is required.
    #[error("{range} names {count} processes; a parent must be a single process")]
    RangeAsParent {
        /// The range.
        range: String,
        /// Number of processes in the range.
        count: u64,
    },
    /// `=>` without children.
    #[error("{parent} has no children after its `=>`")]
    NoChildren {
        /// The parent.
        parent: String,
    },
    /// A process that is listed twice below one parent.
    #[error("{process} is listed twice below {parent}")]
    DuplicateProcess {
        /// The process.
        process: String,
        /// Its parent.
        parent: String,
    },
    /// A process that is listed below two parents.
    #[error("{process} has two parents: {first}, and {second} here")]
    TwoParents {
        /// The process.
        process: String,
        /// Its parent by an earlier statement.
        first: String,
        /// Its parent by this statement.
        second: String,
    },
    /// Processes that form a cycle.
    #[error("{} is above itself: {}", .path[0], .path.join(" => "))]
    Cycle {
        /// The path from the process down to itself. The middle of a long path is omitted.
        path: Vec<String>,
    },
    /// Two processes with children and without a parent.
    #[error("{other} and {root} both have no parent; only the front-end can have none")]
    SeveralRoots {
        /// The first of them.
        root: String,
        /// The other one.
        other: String,
    },
    /// A process with neither parent nor children, beside other processes.
    #[error("{process} has neither a parent nor children: no process would start it")]
    Orphan {
        /// The process.
        process: String,
    },
    /// Every process has a parent.
    #[error("every process has a parent; the front-end must have none")]
    NoRoot,
    /// More processes than are allowed.
    #[error("more than {limit} processes")]
    TooManyProcesses {
        /// The most processes.
        limit: usize,
    },
    /// More hosts than are allowed.
    #[error("more than {limit} hosts")]
    TooManyHosts {
        /// The most hosts.
        limit: usize,
    },
    /// A process with too many children.
    #[error("{parent} has {children} children; allowed: {limit}")]
    FanOutTooLarge {
        /// The parent.
        parent: String,
        /// Number of its children.
        children: usize,
        /// The most children.
        limit: usize,
    },
    /// A text with only spaces and comments.
    #[error("it contains no process or host")]
    Empty,
    /// A text that is too long to be read.
    #[error("it has {bytes} bytes; allowed: {limit}")]
    TooLong {
        /// The text's length.
        bytes: usize,
        /// The longest allowed length.
        limit: usize,
    },
}

/// A hint for a likely mistake with this character.
fn hint_for(character: char) -> &'static str {
    match character {
        ',' => "; separate children by spaces",
        '=' | '-' | '>' => "; children follow `=>`",
        '/' => "; comments begin with `#`",
        _ => "",
    }
}

impl ProblemKind {
    /// The kind's name, for scripts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::UnknownToken { .. } => "unknown_token",
            Self::Unexpected { .. } => "unexpected",
            Self::Unfinished => "unfinished",
            Self::MissingSemicolon { .. } => "missing_semicolon",
            Self::MissingIndex { .. } => "missing_index",
            Self::BadHost { .. } => "bad_host",
            Self::BadIndex { .. } => "bad_index",
            Self::BadSlots { .. } => "bad_slots",
            Self::SlotsTwice => "slots_twice",
            Self::BehindSettings { .. } => "behind_settings",
            Self::RangeAsParent { .. } => "range_as_parent",
            Self::NoChildren { .. } => "no_children",
            Self::DuplicateProcess { .. } => "duplicate_process",
            Self::TwoParents { .. } => "two_parents",
            Self::Cycle { .. } => "cycle",
            Self::SeveralRoots { .. } => "several_roots",
            Self::Orphan { .. } => "orphan",
            Self::NoRoot => "no_root",
            Self::TooManyProcesses { .. } => "too_many_processes",
            Self::TooManyHosts { .. } => "too_many_hosts",
            Self::FanOutTooLarge { .. } => "fan_out_too_large",
            Self::Empty => "empty",
            Self::TooLong { .. } => "too_long",
        }
    }
}

/// All problems of a text, ordered by place; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    told: Vec<Problem>,
    untold: usize,
}

impl Problems {
    /// A problem of a whole text that has not been read.
    pub(super) fn of_whole(kind: ProblemKind) -> Self {
        let place = Place { line: 1, column: 1, width: 0 };
        Self { told: vec![Problem { place, kind, beside: None }], untold: 0 }
    }

    /// The first [`PROBLEMS_MAX`] problems.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.told.iter()
    }

    /// The first problem.
    pub fn first(&self) -> &Problem {
        &self.told[0]
    }

    /// Number of all problems, including those beyond [`PROBLEMS_MAX`].
    pub fn count(&self) -> usize {
        self.told.len() + self.untold
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().fmt(f)?;
        match self.count() - 1 {
            0 => Ok(()),
            1 => f.write_str(", and one more problem"),
            more => write!(f, ", and {more} more problems"),
        }
    }
}

impl std::error::Error for Problems {}

/// A range of a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// The whole text.
    pub(super) const WHOLE: Self = Self { start: 0, end: 0 };

    /// The range from the start of this one to the end of another.
    pub(super) fn to(self, last: Self) -> Self {
        Self { start: self.start, end: last.end }
    }

    /// The place of the range. It scans the text from its start, so call it only for reported problems.
    fn place_in(self, text: &str) -> Place {
        let before = &text[..self.start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
            width: text[self.start..self.end].chars().count(),
        }
    }
}

/// Collects problems.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    text: &'a str,
    told: Vec<Problem>,
    untold: usize,
}

impl<'a> Findings<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, told: Vec::new(), untold: 0 }
    }

    /// Notes a problem.
    pub(super) fn add(&mut self, at: Span, kind: ProblemKind) {
        self.note(at, kind, None);
    }

    /// Notes a problem with a related place.
    pub(super) fn add_beside(&mut self, at: Span, kind: ProblemKind, beside: Span, what: &str) {
        self.note(at, kind, Some((beside, what)));
    }

    fn note(&mut self, at: Span, kind: ProblemKind, beside: Option<(Span, &str)>) {
        if self.told.len() == PROBLEMS_MAX {
            self.untold += 1;
            return;
        }
        let beside = beside.map(|(span, what)| (span.place_in(self.text), what.to_owned()));
        self.told.push(Problem { place: at.place_in(self.text), kind, beside });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Returns the problems found, if any.
    pub(super) fn finish(mut self) -> Result<(), Problems> {
        if self.told.is_empty() {
            return Ok(());
        }
        self.told.sort_by_key(|problem| problem.place);
        Err(Problems { told: self.told, untold: self.untold })
    }
}

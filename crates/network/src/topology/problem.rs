//! What can be wrong with a topology file or a list of hosts, and where.
//!
//! A file is written by hand, and then mended by hand: every problem names line and column, and as many are told at
//! once as there are. What is told stays bounded, however long a wrong file is.

use super::host::NameError;
use std::fmt;

/// How many problems are told of one text; further ones are only counted.
pub const PROBLEMS_MAX: usize = 20;

/// Where in a text. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column in it.
    pub column: usize,
    /// How many characters are meant; 0 for the whole text.
    pub width: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What.
    pub kind: ProblemKind,
    /// Another place that has to do with it, and what is there.
    pub beside: Option<(Place, String)>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)
    }
}

impl std::error::Error for Problem {}

/// The kinds of problems. Processes bear their names as in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A character that means nothing here.
    #[error("`{}` means nothing here{}", .character.escape_debug(), hint_for(*.character))]
    UnknownToken {
        /// Which.
        character: char,
    },
    /// Something stands where something else belongs.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What belongs here.
        expected: &'static str,
        /// What stands here.
        found: String,
    },
    /// The file ends in the middle of a statement.
    #[error("the text ends in the middle of a statement: `;` is missing")]
    Unfinished,
    /// A child is followed by `=>`.
    #[error("{process} is a child of the statement before, and a parent here: is a `;` missing before it?")]
    MissingSemicolon {
        /// The child.
        process: String,
    },
    /// A host without the number of the process on it.
    #[error("{host} lacks the number of the process on that host, as in {host}:0")]
    MissingIndex {
        /// The host.
        host: String,
    },
    /// No host has this name.
    #[error("`{}` names no host: {why}", .host.escape_debug())]
    BadHost {
        /// The name.
        host: String,
        /// What is wrong with it.
        why: NameError,
    },
    /// No process has this number.
    #[error("`{}` numbers no process: {why}", .index.escape_debug())]
    BadIndex {
        /// The number.
        index: String,
        /// What is wrong with it.
        why: NameError,
    },
    /// No host has so many slots.
    #[error("`{}` is no number of slots; allowed: 1 to {limit}", .slots.escape_debug())]
    BadSlots {
        /// The number.
        slots: String,
        /// The most there may be.
        limit: u32,
    },
    /// A range stands where one process belongs.
    #[error("{range} names {count} processes; a parent is one process")]
    RangeAsParent {
        /// The range.
        range: String,
        /// How many it names.
        count: u64,
    },
    /// `=>` with nothing behind it.
    #[error("{parent} has no children behind its `=>`")]
    NoChildren {
        /// The parent.
        parent: String,
    },
    /// A process stands twice below one parent.
    #[error("{process} is listed twice below {parent}")]
    DuplicateProcess {
        /// The process.
        process: String,
        /// Its parent.
        parent: String,
    },
    /// A process stands below two parents.
    #[error("{process} has two parents: {first}, and {second} here")]
    TwoParents {
        /// The process.
        process: String,
        /// Its parent by an earlier statement.
        first: String,
        /// Its parent by this one.
        second: String,
    },
    /// Processes that are above themselves.
    #[error("{} is above itself: {}", .path[0], .path.join(" => "))]
    Cycle {
        /// The way down from the process to itself; the middle of a long way is left out.
        path: Vec<String>,
    },
    /// Two processes with children but no parent.
    #[error("{other} has no parent, and neither has {root}: only one can be the front-end")]
    SeveralRoots {
        /// The first of them.
        root: String,
        /// This one.
        other: String,
    },
    /// A process with neither parent nor children beside others.
    #[error("{process} has neither a parent nor children: nobody would start it")]
    Orphan {
        /// Which.
        process: String,
    },
    /// Everybody has a parent.
    #[error("every process has a parent: none is the front-end")]
    NoRoot,
    /// More processes than are allowed.
    #[error("more than {limit} processes")]
    TooManyProcesses {
        /// How many there may be.
        limit: usize,
    },
    /// More hosts than are allowed.
    #[error("more than {limit} hosts")]
    TooManyHosts {
        /// How many there may be.
        limit: usize,
    },
    /// More children than one process can have.
    #[error("{parent} has {children} children; allowed: {limit}")]
    FanOutTooLarge {
        /// The parent.
        parent: String,
        /// How many it has.
        children: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A text with nothing in it but space and comments.
    #[error("there is nothing in it")]
    Empty,
    /// A text beyond what is read.
    #[error("{bytes} bytes; allowed: {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
}

/// What somebody who wrote this character may have meant.
fn hint_for(character: char) -> &'static str {
    match character {
        ',' => "; children stand apart by spaces",
        '=' | '-' | '>' => "; children stand behind `=>`",
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

/// All that is wrong with a text: at least one problem, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    told: Vec<Problem>,
    untold: usize,
}

impl Problems {
    /// A problem of a text as a whole, which it hasn't been read for.
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

    /// How many there are, those beyond [`PROBLEMS_MAX`] included.
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

/// A stretch of a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// A text as a whole.
    pub(super) const WHOLE: Self = Self { start: 0, end: 0 };

    /// The stretch from the start of this one to the end of another.
    pub(super) fn to(self, last: Self) -> Self {
        Self { start: self.start, end: last.end }
    }

    /// Where that is. It walks the text from its start, so it is asked for what is told only.
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

/// Problems while they are being found.
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

    /// Notes a problem that has to do with a second place.
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

    /// What was found, if anything was.
    pub(super) fn finish(mut self) -> Result<(), Problems> {
        if self.told.is_empty() {
            return Ok(());
        }
        self.told.sort_by_key(|problem| problem.place);
        Err(Problems { told: self.told, untold: self.untold })
    }
}

//! Messages between the processes of a network while it starts: started processes, assignments and failures.
//!
//! Launchers exchange these messages. Core receives none of them, only the cards that they contain. A node
//! without a launcher drops them.

use crate::wire::decode::{decoded, few_enough};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{AssignmentHeader, FailedHeader, LaunchHeader, StartedHeader};
use crate::wire::members_max;
use crate::wire::status::{card_header, card_of};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::limits::Limits;
use treefold_core::membership::card::MemberCard;

/// The longest name of a process: a host name, brackets and a number.
const PLACE_BYTES_MAX: usize = 512;
/// The longest text or line of standard error.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// The most arguments of one command line, and the most lines of standard error.
const WORDS_MAX: usize = 1_024;

/// A message between launchers.
#[derive(Clone, Debug, PartialEq)]
pub enum Launch {
    /// Child to parent: the child is up. Sent to the front-end if the child does not know its parent or has
    /// lost it.
    Attach(Started),
    /// Answer to an accepted `Attach`: the receiver's part of the topology, with the processes to start.
    Assign(Box<Assignment>),
    /// Answer of the front-end to an `Attach`: the parent is at another address.
    Redirect {
        /// The parent's address.
        addr: String,
    },
    /// Answer to an `Attach` of a process that is not accepted.
    Refuse {
        /// The reason.
        why: String,
    },
    /// Child to parent: changes in the child's subtree.
    Report {
        /// Processes that are up.
        started: Vec<Started>,
        /// Processes that could not be started or have ended.
        failed: Vec<Failed>,
    },
    /// Parent to child: the network ends.
    End,
    /// Child to parent: the child leaves on purpose.
    Leave,
}

/// A process that is up.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// The process's name in the topology. Empty if a program knows only the number of its endpoint.
    pub place: String,
    /// The process's card: its identity and its services.
    pub card: Arc<MemberCard>,
}

/// A process that could not be started, or that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The process's name in the topology, `host:number`.
    pub place: String,
    /// How the process ended, or why it could not be started.
    pub what: String,
    /// The last lines that it wrote to standard error.
    pub last_words: Vec<String>,
}

/// `host: process host:1: what happened (its last words)`.
impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        self.last_words.iter().try_for_each(|line| write!(f, "\n  {}| {line}", self.place))
    }
}

/// The mechanism that starts processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Launcher {
    /// Each parent starts its children: on its own host directly, on other hosts by ssh.
    #[default]
    Auto,
    /// As `Auto`, but every host is treated as this one. For small networks and tests.
    Local,
    /// As `Auto`, but always by ssh.
    Ssh,
    /// An external program, such as a job manager. Processes attach by themselves.
    Wait,
}

/// The processes that the receiver must start, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The part of the topology from the receiver down, as a topology file. Empty for a process without a
    /// place in it.
    pub part: String,
    /// Number of the part's first back-end.
    pub first: u32,
    /// Number of back-ends in the whole network.
    pub total: u32,
    /// Address of the front-end, for a process that loses its parent.
    pub root: String,
    /// How processes are started.
    pub launcher: Launcher,
    /// The program that starts processes on other hosts, with its options.
    pub ssh: Vec<String>,
    /// Command line of an inner process.
    pub inner: Vec<String>,
    /// Command line of a back-end.
    pub back_end: Vec<String>,
    /// The program's path on other hosts; empty if it is the same path.
    pub remote_program: String,
    /// Time that the processes have left to start.
    pub time_left: Duration,
}

const LAUNCHERS: [Launcher; 4] = [Launcher::Auto, Launcher::Local, Launcher::Ssh, Launcher::Wait];

impl Launch {
    pub(super) fn header(&self, limits: &Limits) -> Result<LaunchHeader, WireError> {
        let mut header = LaunchHeader::default();
        header.what = match self {
            Self::Attach(started) => {
                header.started = vec![started.header(limits)?];
                1
            }
            Self::Assign(assignment) => {
                header.assignment = Some(assignment.header()?);
                2
            }
            Self::Redirect { addr } => {
                header.text = clipped(addr);
                3
            }
            Self::Refuse { why } => {
                header.text = clipped(why);
                4
            }
            Self::Report { started, failed } => {
                within("started", members_max(limits), started.len())?;
                within("failed", members_max(limits), failed.len())?;
                header.started = started.iter().map(|it| it.header(limits)).collect::<Result<_, _>>()?;
                header.failed = failed.iter().map(Failed::header).collect();
                5
            }
            Self::End => 6,
            Self::Leave => 7,
        };
        Ok(header)
    }

    pub(super) fn read(header: &[u8], limits: &Limits) -> Result<Self, WireError> {
        within("header", limits.header_bytes_max, header.len())?;
        few_enough(header, 2, "started", members_max(limits))?;
        few_enough(header, 3, "failed", members_max(limits))?;
        Self::of(decoded(header)?, limits)
    }

    fn of(header: LaunchHeader, limits: &Limits) -> Result<Self, WireError> {
        let LaunchHeader { what, started, failed, assignment, text } = header;
        within("started", members_max(limits), started.len())?;
        within("failed", members_max(limits), failed.len())?;
        within("text", TEXT_BYTES_MAX, text.len())?;
        let mut started =
            started.into_iter().map(|it| Started::of(it, limits)).collect::<Result<Vec<_>, _>>()?;
        Ok(match what {
            1 if started.len() == 1 => Self::Attach(started.remove(0)),
            2 => Self::Assign(Box::new(Assignment::of(assignment.ok_or(malformed("assignment"))?)?)),
            3 => Self::Redirect { addr: text },
            4 => Self::Refuse { why: text },
            5 => {
                let failed = failed.into_iter().map(Failed::of).collect::<Result<_, _>>()?;
                Self::Report { started, failed }
            }
            6 => Self::End,
            7 => Self::Leave,
            _ => return Err(malformed("what")),
        })
    }
}

impl Started {
    fn header(&self, limits: &Limits) -> Result<StartedHeader, WireError> {
        within("place", PLACE_BYTES_MAX, self.place.len())?;
        Ok(StartedHeader { place: self.place.clone(), card: Some(card_header(&self.card, limits)?) })
    }

    fn of(header: StartedHeader, limits: &Limits) -> Result<Self, WireError> {
        within("place", PLACE_BYTES_MAX, header.place.len())?;
        Ok(Self { place: header.place, card: card_of(header.card.ok_or(malformed("card"))?, limits)? })
    }
}

impl Failed {
    fn header(&self) -> FailedHeader {
        let last_words = self.last_words.iter().take(WORDS_MAX).map(|line| clipped(line)).collect();
        FailedHeader { place: clipped(&self.place), what: clipped(&self.what), last_words }
    }

    fn of(header: FailedHeader) -> Result<Self, WireError> {
        let FailedHeader { place, what, last_words } = header;
        within("failed.last_words", WORDS_MAX, last_words.len())?;
        for text in last_words.iter().chain([&place, &what]) {
            within("failed.text", TEXT_BYTES_MAX, text.len())?;
        }
        Ok(Self { place, what, last_words })
    }
}

impl Assignment {
    fn header(&self) -> Result<AssignmentHeader, WireError> {
        for words in [&self.ssh, &self.inner, &self.back_end] {
            within("assignment.words", WORDS_MAX, words.len())?;
        }
        let launcher = LAUNCHERS.iter().position(|&it| it == self.launcher).unwrap_or_default();
        Ok(AssignmentHeader {
            part: self.part.clone(),
            first: self.first,
            total: self.total,
            root: self.root.clone(),
            launcher: launcher as u32,
            ssh: self.ssh.clone(),
            inner: self.inner.clone(),
            back_end: self.back_end.clone(),
            remote_program: self.remote_program.clone(),
            time_left_us: u64::try_from(self.time_left.as_micros()).unwrap_or(u64::MAX),
        })
    }

    fn of(header: AssignmentHeader) -> Result<Self, WireError> {
        for words in [&header.ssh, &header.inner, &header.back_end] {
            within("assignment.words", WORDS_MAX, words.len())?;
        }
        let launcher = LAUNCHERS.get(header.launcher as usize).copied();
        Ok(Self {
            part: header.part,
            first: header.first,
            total: header.total,
            root: header.root,
            launcher: launcher.ok_or(malformed("assignment.launcher"))?,
            ssh: header.ssh,
            inner: header.inner,
            back_end: header.back_end,
            remote_program: header.remote_program,
            time_left: Duration::from_micros(header.time_left_us),
        })
    }
}

/// Cuts a text to the longest allowed length.
fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Inbox, Incoming, Outbox};
    use treefold_core::id::NodeId;

    fn again(launch: &Launch) -> Launch {
        let mut outbox = Outbox::new(Limits::DEFAULT);
        let node = NodeId::new(([127, 0, 0, 1], 1).into(), 1);
        outbox.push_hello(&crate::wire::Hello::new("c", node)).unwrap();
        outbox.push_launch(launch).unwrap();
        let mut inbox = Inbox::new(Limits::DEFAULT);
        while !outbox.is_empty() {
            let mut slices = [std::io::IoSlice::new(&[])];
            outbox.fill_slices(&mut slices);
            let bytes = slices[0].to_vec();
            inbox.put(&bytes);
            outbox.advance(bytes.len());
        }
        assert!(matches!(inbox.next(), Ok(Some(Incoming::Hello(_)))));
        match inbox.next() {
            Ok(Some(Incoming::Launch(launch))) => *launch,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_launch_message_round_trips() {
        let node = NodeId::new(([127, 0, 0, 1], 7).into(), 9);
        let started = Started { place: "a:0".into(), card: Arc::new(MemberCard::new(node)) };
        let failed =
            Failed { place: "b:1".into(), what: "ended with 3".into(), last_words: vec!["oh".into()] };
        let assignment = Assignment {
            part: "a:0 => b:1 ;".into(),
            first: 3,
            total: 7,
            root: "10.0.0.1:7".into(),
            launcher: Launcher::Ssh,
            ssh: vec!["ssh".into(), "-v".into()],
            inner: vec!["treefold".into()],
            back_end: vec!["x".into()],
            remote_program: "/opt/treefold".into(),
            time_left: Duration::from_secs(3),
        };
        for launch in [
            Launch::Attach(started.clone()),
            Launch::Assign(Box::new(assignment)),
            Launch::Redirect { addr: "10.0.0.2:8".into() },
            Launch::Refuse { why: "no".into() },
            Launch::Report { started: vec![started], failed: vec![failed] },
            Launch::End,
            Launch::Leave,
        ] {
            assert_eq!(again(&launch), launch);
        }
    }

    #[test]
    fn too_many_processes_are_refused_before_decoding() {
        let limits = Limits::DEFAULT;
        // An empty element is two bytes here, and a hundred times as many once decoded.
        let many = |field: u8| [field, 0].repeat(members_max(&limits) + 1);
        let beyond = |field| {
            let (limit, got) = (members_max(&limits) as u64, members_max(&limits) as u64 + 1);
            Err(WireError::TooLarge { field, limit, got })
        };
        assert_eq!(Launch::read(&many(0x12), &limits), beyond("started"));
        assert_eq!(Launch::read(&many(0x1a), &limits), beyond("failed"));
        let long = vec![0; limits.header_bytes_max + 1];
        assert!(matches!(Launch::read(&long, &limits), Err(WireError::TooLarge { field: "header", .. })));
    }
}

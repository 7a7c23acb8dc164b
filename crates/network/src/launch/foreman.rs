//! Looks after the children of one process: starts them, accepts them when they attach, assigns their
//! subtrees, and collects reports.
//!
//! A foreman makes no decisions about the whole network. An inner process passes its reports to its parent,
//! and the front-end ([`super::front`]) combines them.

use super::child::{Tail, watch};
use super::command::{Blanks, allow_files, fill, is_here, start_here, start_there};
use crate::topology::{Role, Topology};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use treefold::parts::Handle;
use treefold::parts::park::deadline_after;
use treefold::parts::wire::{Assignment, Failed, Launch, Launcher, Started, Token};
use treefold::parts::{LaunchAsk, LaunchNews};
use treefold_core::id::NodeId;

/// Open files that a child costs its parent: its connection, its standard error, and the kernel's handles.
const FILES_PER_CHILD: usize = 4;
/// Processes that are started in one step. Starting one takes hundreds of microseconds, and a child that
/// attaches in that time waits for its assignment.
const STARTED_AT_A_TIME: usize = 8;
/// A process gives its children this share of its own time, so that its report arrives in time too.
const TIME_SHARE: f64 = 0.9;
/// Time limit for a process to exit after it has closed its connection.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// How a process that left on purpose has ended.
pub(super) const HAS_LEFT: &str = "has left";
/// How a process has ended if only its connection was lost.
pub(super) const CONNECTION_LOST: &str = "the connection to it is lost";

/// The number of a process that does not know its place: the number of its only endpoint, which is a
/// partition.
pub(super) fn number_of(started: &Started) -> Option<u32> {
    if !started.place.is_empty() {
        return None;
    }
    let mut held = started.card.services.values().flat_map(|service| service.partitions.iter());
    let number = held.next()?;
    held.next().is_none().then_some(number)
}

/// Waits until `at`, or forever.
pub(super) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// One child's place.
struct Post {
    place: String,
    host: Arc<str>,
    part: Topology,
    /// Number of the part's first back-end.
    first: u32,
    presence: Presence,
    tail: Tail,
    /// Id of its process, if this process started it.
    pid: Option<u32>,
    /// True until that process has ended.
    is_running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Expected,
    There(NodeId),
    Gone,
}

/// How a process that was started here has ended.
pub(super) struct Ended {
    post: usize,
    how: String,
}

pub(super) struct Foreman {
    handle: Handle,
    own_addr: String,
    host: Arc<str>,
    token: Option<Token>,
    plan: Assignment,
    /// `None` if there is no time limit.
    due_at: Option<Instant>,
    is_root: bool,
    posts: Vec<Post>,
    /// Index of the first post whose process has not been started.
    next_to_start: usize,
    /// Number of posts whose presence is [`Presence::Expected`].
    expected: usize,
    by_place: HashMap<String, usize>,
    there: HashMap<NodeId, usize>,
    pub(super) processes: JoinSet<Ended>,
    started: Vec<Started>,
    failed: Vec<Failed>,
    is_ending: bool,
}

impl Foreman {
    /// A foreman for the process at the root of `part`, whose back-ends are numbered from `plan.first`.
    pub(super) fn new(
        handle: Handle,
        own_addr: String,
        part: &Topology,
        plan: Assignment,
        token: Option<Token>,
        is_root: bool,
    ) -> Self {
        let mut first = plan.first;
        let post = |part: Topology| {
            let back_ends = part.processes().iter().filter(|process| process.role == Role::BackEnd).count();
            let own_first = first;
            first += back_ends as u32;
            let (place, host) = (part.root().name(), Arc::clone(&part.root().host));
            let (presence, tail) = (Presence::Expected, Tail::default());
            Post { place, host, part, first: own_first, presence, tail, pid: None, is_running: false }
        };
        let posts: Vec<Post> = part.parts().map(post).collect();
        let by_place = posts.iter().enumerate().map(|(at, post)| (post.place.clone(), at)).collect();
        allow_files(posts.len() * FILES_PER_CHILD);
        let (next_to_start, expected) =
            (if plan.launcher == Launcher::Wait { posts.len() } else { 0 }, posts.len());
        Self {
            handle,
            own_addr,
            host: Arc::clone(&part.root().host),
            token,
            due_at: deadline_after(plan.time_left),
            plan,
            is_root,
            posts,
            next_to_start,
            expected,
            by_place,
            there: HashMap::new(),
            processes: JoinSet::new(),
            started: Vec::new(),
            failed: Vec::new(),
            is_ending: false,
        }
    }

    /// True until all children have been started. False if an external program starts them.
    pub(super) fn has_to_start(&self) -> bool {
        self.next_to_start < self.posts.len()
    }

    /// Starts the next few children. They are tied to the calling thread ([`super::command::tie_to_parent`]).
    pub(super) fn start_some(&mut self) {
        let end = (self.next_to_start + STARTED_AT_A_TIME).min(self.posts.len());
        for at in std::mem::replace(&mut self.next_to_start, end)..end {
            match self.start(at) {
                Ok(child) => {
                    let tail = self.posts[at].tail.clone();
                    (self.posts[at].pid, self.posts[at].is_running) = (child.id(), true);
                    self.processes.spawn(async move { Ended { post: at, how: watch(child, tail).await } });
                }
                Err(error) => self.fail(at, format!("can't be started: {error}")),
            }
        }
    }

    fn start(&self, at: usize) -> std::io::Result<Child> {
        let post = &self.posts[at];
        let mut words = self.command_line(at);
        let here = match self.plan.launcher {
            Launcher::Local => true,
            Launcher::Ssh | Launcher::Wait => false,
            Launcher::Auto => post.host == self.host || is_here(&post.host),
        };
        if here {
            // Grandchildren must outlive a dead inner process, so they are tied to the front-end only by
            // their connection.
            return start_here(&words, self.token.as_ref(), self.is_root);
        }
        if let (false, Some(program)) = (self.plan.remote_program.is_empty(), words.first_mut()) {
            program.clone_from(&self.plan.remote_program);
        }
        start_there(&self.plan.ssh, &post.host, &words, self.token.as_ref())
    }

    fn command_line(&self, at: usize) -> Vec<String> {
        let post = &self.posts[at];
        let is_back_end = post.part.root().role == Role::BackEnd;
        let template = if is_back_end { &self.plan.back_end } else { &self.plan.inner };
        let (place, number, total) = (post.place.as_str(), post.first, self.plan.total);
        fill(template, &Blanks { attach: &self.own_addr, place, number, total })
    }

    fn stand(&mut self, at: usize, presence: Presence) {
        let before = std::mem::replace(&mut self.posts[at].presence, presence);
        self.expected -= usize::from(before == Presence::Expected);
        self.expected += usize::from(presence == Presence::Expected);
    }

    fn fail(&mut self, at: usize, what: String) {
        self.stand(at, Presence::Gone);
        let post = &self.posts[at];
        let last_words = post.tail.last_words();
        self.failed.push(Failed { place: post.place.clone(), what, last_words });
    }

    /// Handles an attaching process. Returns false if it is none of the children. A process that does not
    /// know its place is the back-end with the number of its endpoint.
    pub(super) fn take_in(&mut self, from: NodeId, mut started: Started) -> bool {
        let found = match number_of(&started) {
            Some(number) => self.back_end(number),
            None => self.by_place.get(&started.place).copied(),
        };
        let Some(at) = found else { return false };
        started.place.clone_from(&self.posts[at].place);
        if self.is_ending {
            self.say(from, Launch::End);
            return true;
        }
        if started.card.node != from {
            self.say(from, Launch::Refuse { why: "the card belongs to another node".to_owned() });
            return true;
        }
        if let Presence::There(other) = self.posts[at].presence
            && other != from
        {
            let why = format!("{} is already attached, at {}", started.place, other.addr);
            self.say(from, Launch::Refuse { why });
            return true;
        }
        self.stand(at, Presence::There(from));
        self.there.insert(from, at);
        self.say(from, Launch::Assign(Box::new(self.assignment_of(at))));
        self.started.push(started);
        true
    }

    /// The child that is the back-end with this number.
    fn back_end(&self, number: u32) -> Option<usize> {
        let at = self.posts.partition_point(|post| post.first <= number).checked_sub(1)?;
        let post = &self.posts[at];
        (post.first == number && post.part.root().role == Role::BackEnd).then_some(at)
    }

    fn assignment_of(&self, at: usize) -> Assignment {
        self.assignment(&self.posts[at].part, self.posts[at].first)
    }

    /// A child's assignment: everything about its part or, if there is no process below it, only the
    /// front-end's address.
    pub(super) fn assignment(&self, part: &Topology, first: u32) -> Assignment {
        let (plan, mut own) = (&self.plan, self.assignment_of_guest());
        (own.part, own.first) = (part.to_string(), first);
        if part.processes().len() > 1 {
            own.ssh.clone_from(&plan.ssh);
            own.inner.clone_from(&plan.inner);
            own.back_end.clone_from(&plan.back_end);
            own.remote_program.clone_from(&plan.remote_program);
        }
        own
    }

    /// The assignment of a program without a place in the topology.
    pub(super) fn assignment_of_guest(&self) -> Assignment {
        let (plan, now) = (&self.plan, Instant::now());
        let time_left = self.due_at.map_or(Duration::MAX, |at| at.saturating_duration_since(now));
        Assignment {
            part: String::new(),
            first: plan.total,
            time_left: time_left.mul_f64(TIME_SHARE),
            ssh: Vec::new(),
            inner: Vec::new(),
            back_end: Vec::new(),
            remote_program: String::new(),
            root: plan.root.clone(),
            ..*plan
        }
    }

    /// Handles a child's report about its subtree.
    pub(super) fn take_report(&mut self, from: NodeId, started: Vec<Started>, failed: Vec<Failed>) {
        if self.there.contains_key(&from) {
            self.started.extend(started);
            self.failed.extend(failed);
        }
    }

    /// Handles the loss of a peer, by [`HAS_LEFT`] or [`CONNECTION_LOST`]. If its process runs here, the
    /// process's end gives a better reason and is reported instead.
    pub(super) fn let_go(&mut self, peer: NodeId, what: &str) {
        let Some(at) = self.there.remove(&peer) else { return };
        if self.posts[at].presence == Presence::There(peer) {
            if !self.posts[at].is_running && !self.is_ending {
                self.fail(at, what.to_owned());
            }
            self.stand(at, Presence::Gone);
        }
    }

    /// Handles the end of a process that was started here.
    pub(super) fn note_end(&mut self, ended: &Ended) {
        let post = &mut self.posts[ended.post];
        post.is_running = false;
        let was_expected = post.presence == Presence::Expected;
        if !self.is_ending {
            let before = if was_expected { " before it had attached" } else { "" };
            self.fail(ended.post, format!("{}{before}", ended.how));
        }
    }

    /// Reports all children that have not attached as failed, and starts no further children.
    pub(super) fn give_up_waiting(&mut self) {
        self.next_to_start = self.posts.len();
        let waited = self.plan.time_left;
        for at in 0..self.posts.len() {
            if self.posts[at].presence == Presence::Expected {
                self.fail(at, format!("has not attached within {waited:.1?}"));
            }
        }
    }

    /// The processes that were started here, by name and process id.
    pub(super) fn pids(&self) -> impl Iterator<Item = (&str, u32)> {
        self.posts.iter().filter_map(|post| Some((post.place.as_str(), post.pid?)))
    }

    /// The time by which all children must have attached.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    pub(super) fn is_anyone_expected(&self) -> bool {
        self.expected > 0
    }

    /// Takes the changes since the last call.
    pub(super) fn drain_report(&mut self) -> Option<(Vec<Started>, Vec<Failed>)> {
        let report = (std::mem::take(&mut self.started), std::mem::take(&mut self.failed));
        (!report.0.is_empty() || !report.1.is_empty()).then_some(report)
    }

    pub(super) fn say(&self, to: NodeId, word: Launch) {
        self.handle.launch_ask(LaunchAsk::Say { to, word: Box::new(word) });
    }

    /// Tells all children and `others` that the network ends, and waits until they have gone. Processes that
    /// were started here and have not ended by then are killed.
    pub(super) async fn end(
        &mut self,
        news: &mut mpsc::UnboundedReceiver<LaunchNews>,
        others: impl Iterator<Item = NodeId>,
        grace: Duration,
    ) {
        self.is_ending = true;
        let mut leaving: HashSet<NodeId> = self.there.keys().copied().chain(others).collect();
        leaving.iter().for_each(|&node| self.say(node, Launch::End));
        let all_gone = async {
            while !leaving.is_empty() {
                match news.recv().await {
                    Some(LaunchNews::Lost { peer }) => {
                        leaving.remove(&peer);
                    }
                    Some(
                        LaunchNews::Said { .. } | LaunchNews::Card { .. } | LaunchNews::TurnedAway { .. },
                    ) => {}
                    None => return,
                }
            }
        };
        // Slower processes are killed, or notice that their parent is gone.
        let _ = tokio::time::timeout(grace, all_gone).await;
        // Processes that have closed their connections are about to exit. After this function, the network's
        // owner must not find them running.
        let all_exited = async { while self.processes.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(EXIT_GRACE, all_exited).await;
        self.processes.shutdown().await;
    }
}

//! The front-end's part in its network: counts the processes that have attached, redirects processes that
//! attached to the front-end before their parents, and adopts processes that have lost their parents.

use super::events::Events;
use super::foreman::{CONNECTION_LOST, Foreman, HAS_LEFT, number_of, until};
use super::options::{Progress, UpError, UpOptions};
use super::{Network, NetworkEvent};
use crate::topology::{Process, Role, Topology};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use treefold::Node;
use treefold::parts::Handle;
use treefold::parts::park::deadline_after;
use treefold::parts::wire::{Assignment, Failed, Launch, Started};
use treefold::parts::{LaunchAsk, LaunchNews};
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;

/// How long the front-end waits for further failures after the first, so that failures with one cause are
/// reported together.
const MORE_FAILURES_WAIT: Duration = Duration::from_millis(500);
/// Time that processes have to end after the network failed to start.
const FAILED_GRACE: Duration = Duration::from_secs(1);
/// Children are given up at the deadline. Their reports about their own children may arrive this much later.
const REPORTS_WAIT: Duration = Duration::from_millis(300);
/// The most processes that attach before their parents. Further ones are refused.
const WAITING_MAX: usize = 16_384;
/// The most programs without a place in the topology. Further ones are refused.
const GUESTS_MAX: usize = 16_384;

/// The processes of a network and their states.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// Index in the topology's order and the parent's index, by name.
    places: HashMap<String, (usize, usize)>,
    cards: Vec<Option<Arc<MemberCard>>>,
    /// Processes that will not attach or have gone.
    gone: Vec<bool>,
    /// Number of cards, and number of processes that are gone.
    there_count: usize,
    gone_count: usize,
    /// Indices of the topology's back-ends.
    back_ends: Vec<usize>,
    /// Programs without a place in the topology that have attached. They are children of the front-end.
    pub(super) guests: BTreeMap<NodeId, Arc<MemberCard>>,
}

impl Roster {
    fn new(topology: &Topology) -> Self {
        let parents = topology.parents();
        let processes = topology.processes();
        let place = |(at, parent): (usize, &Option<usize>)| (processes[at].name(), (at, parent.unwrap_or(0)));
        Self {
            places: parents.iter().enumerate().skip(1).map(place).collect(),
            cards: vec![None; processes.len()],
            gone: vec![false; processes.len()],
            there_count: 0,
            gone_count: 0,
            back_ends: (0..processes.len()).filter(|&at| processes[at].role == Role::BackEnd).collect(),
            guests: BTreeMap::new(),
        }
    }

    fn note(&mut self, at: usize, card: Option<Arc<MemberCard>>) {
        self.there_count += usize::from(card.is_some());
        self.there_count -= usize::from(self.cards[at].is_some());
        self.gone_count += usize::from(card.is_none());
        self.gone_count -= usize::from(self.gone[at]);
        self.gone[at] = card.is_none();
        self.cards[at] = card;
    }

    /// A failed process also fails the processes that it would have started.
    fn progress(&self, topology: &Topology) -> Progress {
        let (mut failed, mut lost_until) = (0, 0);
        let processes = topology.processes();
        // Processes are rarely gone, and this function is called often.
        let all = if self.gone_count == 0 { &[] } else { processes };
        for (at, process) in all.iter().enumerate().skip(1) {
            if self.gone[at] {
                lost_until = lost_until.max(at + process.size as usize);
            }
            failed += usize::from(at < lost_until && self.cards[at].is_none());
        }
        Progress { started: self.there_count, failed, total: processes.len() - 1 }
    }

    /// The card of the process that is now at a place.
    pub(super) fn card(&self, place: &str) -> Option<&Arc<MemberCard>> {
        let &(at, _) = self.places.get(place)?;
        self.cards[at].as_ref()
    }
}

pub(super) struct FrontEnd {
    handle: Handle,
    own: NodeId,
    topology: Topology,
    foreman: Foreman,
    news: mpsc::UnboundedReceiver<LaunchNews>,
    events: Events,
    roster: Arc<Mutex<Roster>>,
    /// Processes that attached before their parents were known, by the parent's index.
    waiting: HashMap<usize, Vec<(NodeId, Started)>>,
    waiting_count: usize,
    /// Processes that lost their parents and are now children of the front-end.
    adopted: HashMap<NodeId, String>,
    failed: Vec<Failed>,
    is_up: bool,
}

impl FrontEnd {
    pub(super) fn new(
        node: &Node,
        topology: Topology,
        options: &UpOptions,
        events: Events,
    ) -> Result<Self, UpError> {
        for (field, words) in [("inner", &options.inner), ("back_end", &options.back_end)] {
            if words.is_empty() {
                let (given, allowed) = ("empty".to_owned(), "a program and its arguments".to_owned());
                return Err(UpError::BadOption { field, given, allowed });
            }
        }
        let (handle, own_addr) = (node.handle().clone(), node.addr().to_string());
        let (sender, news) = mpsc::unbounded_channel();
        handle.launch_ask(LaunchAsk::Listen { news: sender });
        let back_ends = topology.processes().iter().filter(|process| process.role == Role::BackEnd).count();
        let plan = Assignment {
            part: String::new(),
            first: 0,
            total: back_ends as u32,
            root: own_addr.clone(),
            launcher: options.launcher,
            ssh: options.ssh.clone(),
            inner: options.inner.clone(),
            back_end: options.back_end.clone(),
            remote_program: options.remote_program.clone().unwrap_or_default(),
            time_left: options.timeout,
        };
        let token = options.token.clone();
        let foreman = Foreman::new(handle.clone(), own_addr, &topology, plan, token, true);
        let roster = Arc::new(Mutex::new(Roster::new(&topology)));
        let (waiting, adopted) = (HashMap::new(), HashMap::new());
        let (failed, waiting_count, is_up) = (Vec::new(), 0, false);
        Ok(Self {
            handle,
            own: node.card().node,
            topology,
            foreman,
            news,
            events,
            roster,
            waiting,
            waiting_count,
            adopted,
            failed,
            is_up,
        })
    }

    /// The roster, shared with the network's owner.
    pub(super) fn shared_roster(&self) -> Arc<Mutex<Roster>> {
        Arc::clone(&self.roster)
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The processes that were started here.
    pub(super) fn children(&self) -> Vec<(String, u32)> {
        self.foreman.pids().map(|(place, pid)| (place.to_owned(), pid)).collect()
    }

    /// Starts all processes and waits until all have attached or have failed.
    pub(super) async fn come_up(&mut self, options: &mut UpOptions) -> Result<Vec<Failed>, UpError> {
        let mut give_up_at = self.foreman.due_at().and_then(|at| at.checked_add(REPORTS_WAIT));
        let mut told = None;
        loop {
            self.digest();
            let progress = self.progress();
            if told != Some(progress)
                && let Some(tell) = &mut options.on_progress
            {
                tell(progress);
                told = Some(progress);
            }
            if progress.started + progress.failed >= progress.total {
                break;
            }
            if progress.failed > 0 && !options.allow_failures {
                give_up_at = earlier(give_up_at, deadline_after(MORE_FAILURES_WAIT));
            }
            let due_at = self.foreman.due_at().filter(|_| self.foreman.is_anyone_expected());
            if !self.step(earlier(due_at, give_up_at)).await {
                let now = Instant::now();
                if self.foreman.due_at().is_some_and(|at| now >= at) {
                    self.foreman.give_up_waiting();
                }
                if give_up_at.is_some_and(|at| now >= at) {
                    self.digest();
                    break;
                }
            }
        }
        let Progress { started, total, .. } = self.progress();
        if started < total && self.failed.is_empty() {
            self.failed = self.silent(options.timeout);
        }
        if started < total && !options.allow_failures {
            self.end(FAILED_GRACE).await;
            return Err(UpError::Failed { failed: std::mem::take(&mut self.failed), started, total });
        }
        if started < total {
            self.give_up_parents();
        }
        self.is_up = true;
        Ok(std::mem::take(&mut self.failed))
    }

    /// The processes that neither attached nor were reported as failed.
    fn silent(&self, waited: Duration) -> Vec<Failed> {
        let roster = self.roster();
        let names = self.topology.processes().iter().skip(1).map(Process::name);
        let silent = names.filter(|place| roster.card(place).is_none());
        let what = format!("did not attach within {waited:.1?}, and its parent reported no reason");
        silent.map(|place| Failed { place, what: what.clone(), last_words: Vec::new() }).collect()
    }

    /// Looks after the network until it must end.
    pub(super) async fn look_after(mut self, mut stop: oneshot::Receiver<Duration>) {
        loop {
            self.digest();
            tokio::select! {
                // If the owner is gone, the network ends too.
                grace = &mut stop => return self.end(grace.unwrap_or_default()).await,
                news = self.news.recv() => match news {
                    Some(news) => self.hear(news),
                    None => return,
                },
                Some(Ok(ended)) = self.foreman.processes.join_next() => self.foreman.note_end(&ended),
                () = self.events.tell_missed() => {}
            }
        }
    }

    async fn end(&mut self, grace: Duration) {
        let guests: Vec<NodeId> = self.roster().guests.keys().copied().collect();
        let others = self.adopted.keys().copied().chain(guests);
        self.foreman.end(&mut self.news, others, grace).await;
    }

    /// Waits for an event until `at`. Returns false if there was none.
    async fn step(&mut self, at: Option<Instant>) -> bool {
        tokio::select! {
            biased;
            Some(news) = self.news.recv() => {
                self.hear(news);
                // News that have arrived in the meantime go into the same report.
                while let Ok(news) = self.news.try_recv() {
                    self.hear(news);
                }
            }
            Some(Ok(ended)) = self.foreman.processes.join_next() => self.foreman.note_end(&ended),
            () = until(at) => return false,
            // Attaching processes are served first. In between, the runtime runs its other tasks.
            () = tokio::task::yield_now(), if self.foreman.has_to_start() => self.foreman.start_some(),
        }
        true
    }

    fn hear(&mut self, news: LaunchNews) {
        match news {
            LaunchNews::Said { from, word } => match *word {
                Launch::Attach(started) => self.attach(from, started),
                Launch::Report { started, failed } if self.adopted.contains_key(&from) => {
                    self.note(started, failed);
                }
                Launch::Report { started, failed } => self.foreman.take_report(from, started, failed),
                Launch::Leave => self.let_go(from, HAS_LEFT),
                // A front-end has no parent that could send these.
                Launch::Assign(_) | Launch::Redirect { .. } | Launch::Refuse { .. } | Launch::End => {}
            },
            LaunchNews::Lost { peer } => {
                self.forget_waiting(peer);
                self.let_go(peer, CONNECTION_LOST);
                self.keep(peer);
            }
            LaunchNews::Card { .. } => {}
            LaunchNews::TurnedAway { from, why } => self.events.tell(NetworkEvent::TurnedAway { from, why }),
        }
    }

    /// Handles the loss of a peer: a child, an adopted process, or a guest.
    fn let_go(&mut self, peer: NodeId, what: &str) {
        self.foreman.let_go(peer, what);
        let failed = |place| Failed { place, what: what.to_owned(), last_words: Vec::new() };
        if let Some(place) = self.adopted.remove(&peer) {
            self.note(Vec::new(), vec![failed(place)]);
        }
        let guest = self.roster().guests.remove(&peer);
        if guest.is_some() {
            self.events.tell(NetworkEvent::Lost(failed(peer.addr.to_string())));
        }
    }

    /// Keeps a process of another parent in sight whose connection to this node has ended. Its parent says when it is gone.
    fn keep(&mut self, peer: NodeId) {
        let roster = self.roster();
        let card = roster.cards.iter().flatten().find(|card| card.node == peer).map(Arc::clone);
        drop(roster);
        if let Some(card) = card.filter(|card| card.parent != Some(self.own)) {
            self.handle.launch_ask(LaunchAsk::Learn { cards: vec![card] });
        }
    }

    /// Handles an attaching process: a child, a guest, or a process that attaches here before its parent or
    /// after losing it.
    fn attach(&mut self, from: NodeId, mut started: Started) {
        let refuse = |why: String| Launch::Refuse { why };
        if started.place.is_empty() {
            match self.place_of(&started) {
                Some(place) => started.place = place,
                None => return self.take_guest(from, started.card),
            }
        }
        let roster = self.roster();
        let Some(&(at, parent)) = roster.places.get(&started.place) else {
            return self.foreman.say(from, refuse(format!("the topology has no process {}", started.place)));
        };
        if parent == 0 {
            drop(roster);
            self.foreman.take_in(from, started);
            return;
        }
        let was_there = roster.cards[at].as_ref().is_some_and(|card| card.node == from);
        if was_there || roster.gone[parent] {
            drop(roster);
            return self.adopt(at, from, started);
        }
        if let Some(card) = &roster.cards[parent] {
            let addr = card.node.addr.to_string();
            drop(roster);
            return self.foreman.say(from, Launch::Redirect { addr });
        }
        drop(roster);
        if self.waiting_count >= WAITING_MAX {
            return self.foreman.say(from, refuse("too many processes wait for their parents".to_owned()));
        }
        self.waiting_count += 1;
        self.waiting.entry(parent).or_default().push((from, started));
    }

    /// The place of a process that knows only its number. `None` for a guest: there is no such back-end, or
    /// it is attached and serves another service.
    fn place_of(&self, started: &Started) -> Option<String> {
        let number = number_of(started)?;
        let roster = self.roster();
        let at = *roster.back_ends.get(number as usize)?;
        let serves_the_same = |card: &MemberCard| {
            let mut services = started.card.services.keys();
            services.any(|name| card.services.get(name).is_some_and(|held| held.partitions.contains(number)))
        };
        let is_free = roster.cards[at]
            .as_ref()
            .is_none_or(|card| card.node == started.card.node || serves_the_same(card));
        is_free.then(|| self.topology.processes()[at].name())
    }

    /// Adopts a program without a place in the topology as a child of the front-end.
    fn take_guest(&mut self, from: NodeId, card: Arc<MemberCard>) {
        let refused = if card.node != from {
            Some("the card belongs to another node".to_owned())
        } else if self.roster().guests.len() >= GUESTS_MAX {
            Some(format!("the limit of {GUESTS_MAX} guests is reached"))
        } else {
            None
        };
        if let Some(why) = refused {
            return self.foreman.say(from, Launch::Refuse { why });
        }
        self.foreman.say(from, Launch::Assign(Box::new(self.foreman.assignment_of_guest())));
        self.handle.launch_ask(LaunchAsk::Learn { cards: vec![Arc::clone(&card)] });
        self.roster().guests.insert(from, card);
        self.events.tell(NetworkEvent::Came { place: from.addr.to_string() });
    }

    /// Removes and returns the children that waited for a parent.
    fn take_waiting(&mut self, parent: usize) -> Vec<(NodeId, Started)> {
        let children = self.waiting.remove(&parent).unwrap_or_default();
        self.waiting_count -= children.len();
        children
    }

    fn forget_waiting(&mut self, peer: NodeId) {
        for children in self.waiting.values_mut() {
            let before = children.len();
            children.retain(|(child, _)| *child != peer);
            self.waiting_count -= before - children.len();
        }
    }

    /// Makes a process whose parent is gone a child of the front-end.
    fn adopt(&mut self, at: usize, from: NodeId, started: Started) {
        let is_back_end = |process: &&Process| process.role == Role::BackEnd;
        let first = self.topology.processes()[..at].iter().filter(is_back_end).count();
        let mut assignment = self.foreman.assignment(&self.topology.part(at), first as u32);
        // The process's own children are on their way.
        assignment.time_left = assignment.time_left.max(REPORTS_WAIT);
        self.foreman.say(from, Launch::Assign(Box::new(assignment)));
        self.adopted.insert(from, started.place.clone());
        self.note(vec![started], Vec::new());
    }

    /// Gives up all missing processes: they are gone, and the children that waited for them are adopted.
    fn give_up_parents(&mut self) {
        {
            let mut roster = self.roster();
            for at in 1..roster.cards.len() {
                if roster.cards[at].is_none() {
                    roster.note(at, None);
                }
            }
        }
        for parent in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.adopt_waiting(parent);
        }
    }

    fn adopt_waiting(&mut self, parent: usize) {
        for (child, started) in self.take_waiting(parent) {
            let at = self.roster().places[&started.place].0;
            self.adopt(at, child, started);
        }
    }

    /// Handles the changes that the foreman has collected. A parent that lost a process does not know that the front-end
    /// has adopted it since.
    fn digest(&mut self) {
        if let Some((started, mut failed)) = self.foreman.drain_report() {
            failed.retain(|failed| !self.adopted.values().any(|place| *place == failed.place));
            self.note(started, failed);
        }
    }

    fn note(&mut self, started: Vec<Started>, failed: Vec<Failed>) {
        let cards: Vec<_> = started.iter().map(|started| Arc::clone(&started.card)).collect();
        // The node learns the cards before the user gets the events.
        if !cards.is_empty() {
            self.handle.launch_ask(LaunchAsk::Learn { cards });
        }
        started.into_iter().for_each(|started| self.note_started(started));
        failed.into_iter().for_each(|failed| self.note_failed(failed));
    }

    fn note_started(&mut self, started: Started) {
        let Started { place, card } = started;
        let addr = card.node.addr;
        let (at, is_known) = {
            let mut roster = self.roster();
            let Some(&(at, _)) = roster.places.get(&place) else { return };
            // It folds for more services, and stands where it stood.
            let stands = |known: &Arc<MemberCard>| (known.node, known.parent) == (card.node, card.parent);
            let is_known = roster.cards[at].as_ref().is_some_and(stands);
            roster.note(at, Some(card));
            (at, is_known)
        };
        if is_known {
            return;
        }
        for (child, _) in self.take_waiting(at) {
            self.foreman.say(child, Launch::Redirect { addr: addr.to_string() });
        }
        if self.is_up {
            self.events.tell(NetworkEvent::Came { place });
        }
    }

    fn note_failed(&mut self, failed: Failed) {
        let (at, lost) = {
            let mut roster = self.roster();
            let at = roster.places.get(&failed.place).map(|&(at, _)| at);
            let lost = at.and_then(|at| roster.cards[at].as_ref().map(|card| card.node));
            if let Some(at) = at {
                roster.note(at, None);
            }
            (at, lost)
        };
        if let Some(node) = lost {
            self.handle.launch_ask(LaunchAsk::Forget { node });
        }
        if self.is_up {
            self.events.tell(NetworkEvent::Lost(failed));
        } else {
            self.failed.push(failed);
        }
        if let Some(at) = at {
            self.adopt_waiting(at);
        }
    }

    fn progress(&self) -> Progress {
        self.roster().progress(&self.topology)
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

impl std::fmt::Debug for FrontEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(std::any::type_name::<Network>()).field("is_up", &self.is_up).finish_non_exhaustive()
    }
}

//! The filters: their results, their processors, and the sources that they know.

use super::super::feeds::VOTE_BYTES;
use super::super::ink::{Ink, mixed};
use super::super::processors::{Output, Task, TaskId};
use super::super::{Sabotage, World};
use std::collections::BTreeSet;
use treefold_core::effect::FilterEffect;
use treefold_core::error::JobError;
use treefold_core::input::Input;
use treefold_core::stream::StreamId;
use treefold_core::stream::operator::{OperatorId, OperatorNews};
use treefold_core::stream::spec::{FilterRun, FilterWork, Filtered, NoFilter, Source, StreamSpec};
use treefold_core::time::Duration;

/// Time in which a node checks an operator that it has got.
const OPERATOR_LOOK: Duration = Duration::from_millis(30);
/// Size of an operator, in bytes.
const OPERATOR_BYTES: u32 = 50_000;
/// Prefix of the filter names that are operators.
const OPERATOR: &str = "op:";
/// With sabotage, one in this many runs is wrong.
const SABOTAGED_RUN: u64 = 100;

/// A node's filter of a stream.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    play: usize,
    lags: bool,
    votes: bool,
    /// Sources that have joined and were not replaced.
    known: BTreeSet<Source>,
    /// All sources that have ever joined.
    ever: BTreeSet<Source>,
    /// The packet that the filter holds back for its next run.
    kept: Option<Ink>,
}

/// Returns an operator of this world. Only the first byte of its id matters.
pub fn operator(id: OperatorId) -> Ink {
    Ink { bytes: OPERATOR_BYTES, ..Ink::params(id.0[0].into(), 1.0) }
}

impl World {
    pub(in crate::world) fn perform_filter(
        &mut self,
        at: usize,
        effect: FilterEffect<Ink>,
        inline: &mut Vec<Input<Ink>>,
    ) {
        match effect {
            FilterEffect::Open { stream, spec } => inline.push(self.open_filter(at, stream, &spec)),
            FilterEffect::Run(run) => self.run_filter(at, &run, inline),
            FilterEffect::Lend { stream, id } => {
                let payload = self.streams.operators.get(&(at, id)).cloned();
                inline.push(Input::Operator(OperatorNews::Lent { stream, id, payload }));
            }
            FilterEffect::Keep { id, payload } => {
                self.streams.operators_kept.push(at);
                let result = if payload == operator(id) {
                    self.streams.operators.insert((at, id), payload);
                    Ok(())
                } else {
                    Err("it is not what its name says".into())
                };
                let input = Input::Operator(OperatorNews::Kept { id, result });
                let to = self.places[at].id;
                self.agenda.plan(self.now + OPERATOR_LOOK, super::super::Happening::Input { to, input });
            }
            FilterEffect::Joined { stream, source } => {
                let keeper = self.keeper(at, stream);
                assert!(keeper.known.insert(source), "place {at}, {stream}: {source:?} joined twice");
                keeper.ever.insert(source);
            }
            FilterEffect::Replaced { stream, lost, heirs } => {
                let keeper = self.keeper(at, stream);
                assert!(
                    keeper.known.remove(&lost),
                    "place {at}, {stream}: {lost:?} was replaced, but never joined"
                );
                let stranger = heirs.iter().find(|heir| !keeper.known.contains(heir));
                assert!(stranger.is_none(), "place {at}, {stream}: {stranger:?} never joined");
            }
            FilterEffect::Abandon { stream, run, .. } => {
                self.streams.filters.remove(&(at, stream));
                if self.places[at].processors.withdraw(TaskId::Run(stream, run)) {
                    let result = Err(JobError::Failed("it was given up before it began".into()));
                    inline.push(Input::Filtered { stream, run, result, cost: Duration::ZERO });
                }
            }
            FilterEffect::Close { stream } => {
                self.streams.filters.remove(&(at, stream));
            }
        }
    }

    fn keeper(&mut self, at: usize, stream: StreamId) -> &mut Keeper {
        let keeper = self.streams.filters.get_mut(&(at, stream));
        keeper.expect("invariant: core opens a filter before its other effects")
    }

    fn open_filter(&mut self, at: usize, stream: StreamId, spec: &StreamSpec<Ink>) -> Input<Ink> {
        let play = self.streams.play_of(&spec.filter_params);
        let (lags, votes) = (&*spec.up_filter == "lag", &*spec.up_filter == "votes");
        self.streams.filters.insert((at, stream), Keeper { play, lags, votes, ..Keeper::default() });
        if self.places[at].spec.lacks_filters {
            let result = Err(NoFilter::Unknown("this place knows no filters".into()));
            return Input::FilterOpened { stream, result };
        }
        for name in [&*spec.up_filter, &*spec.down_filter] {
            match (name, name.strip_prefix(OPERATOR).and_then(OperatorId::parse)) {
                ("" | "sum" | "lag" | "votes", _) => {}
                (_, Some(id)) if self.streams.operators.contains_key(&(at, id)) => {}
                (_, Some(id)) => return Input::Operator(OperatorNews::Lacking { stream, id }),
                (name, None) => {
                    let result = Err(NoFilter::Unknown(format!("no filter is called {name:?}").into()));
                    return Input::FilterOpened { stream, result };
                }
            }
        }
        Input::FilterOpened { stream, result: Ok(self.streams.plays[play].filter_placement) }
    }

    fn run_filter(&mut self, at: usize, run: &FilterRun<Ink>, inline: &mut Vec<Input<Ink>>) {
        let play = self.streams.filters.get(&(at, run.stream)).map_or(0, |keeper| keeper.play);
        let (filter_work, packet_bytes) = {
            let play = &self.streams.plays[play];
            (play.filter_work, play.packet_bytes)
        };
        let id = TaskId::Run(run.stream, run.run);
        let is_up = matches!(run.work, FilterWork::Up(_));
        let filtered = self.filtered(at, run, packet_bytes);
        let chance = mixed(self.setting.workload_seed ^ mixed(run.run) ^ (at as u64) << 40);
        let befalls =
            |one_in: u64, purpose: u64| is_up && one_in > 0 && mixed(chance ^ purpose).is_multiple_of(one_in);
        let failing = &self.places[at].failing;
        let result = if befalls(failing.one_filter_in, 1) { Err(failing.error()) } else { Ok(filtered) };
        let hangs = !run.inline && befalls(failing.one_filter_hangs_in, 2);
        let task = Task { id, call: 0, is_fold: true, work: filter_work, output: Output::Filtered(result) };
        if hangs {
            let node = self.places[at].id;
            self.streams.hanging.push((node, task.done(filter_work)));
        } else if run.inline {
            inline.push(task.done(filter_work));
        } else {
            self.places[at].processors.submit(task);
            self.begin_tasks(at);
        }
    }

    /// Returns the result of a filter's run.
    fn filtered(&mut self, at: usize, run: &FilterRun<Ink>, packet_bytes: u32) -> Filtered<Ink> {
        let pieces = match &run.work {
            FilterWork::Up(pieces) => pieces,
            FilterWork::Down(packet) => return Filtered { packets: vec![packet.clone()], holds_from: None },
        };
        let (stream, tag) = (run.stream, run.tag);
        let (doubled, held_back) = self.sabotaged_run(pieces.len());
        let keeper = self.keeper(at, stream);
        let mut sum: Option<Ink> = None;
        let mut late = None;
        for (number, (source, piece)) in pieces.iter().enumerate() {
            let (source, piece) = (*source, piece.clone());
            assert!(
                keeper.ever.contains(&source),
                "place {at}, {stream}: got a piece of {source:?}, which never joined"
            );
            let piece = match source {
                Source::Endpoint(endpoint) => piece.stamped(stream, endpoint, tag),
                Source::Child(_) => piece,
            };
            if number == 0 && held_back {
                late = Some(piece);
                continue;
            }
            let times = if number == 0 && doubled { 2 } else { 1 };
            for _ in 0..times {
                let piece = piece.clone();
                sum = Some(match sum {
                    Some(sum) => Ink { call: 0, ..sum.folded(&piece) },
                    None => piece,
                });
            }
        }
        let sum = sum.map(|sum| Ink { bytes: packet_bytes, ..sum });
        if keeper.votes {
            return self.folded_votes(sum, pieces);
        }
        if keeper.lags {
            let last = std::mem::replace(&mut keeper.kept, sum);
            return Filtered { packets: last.into_iter().collect(), holds_from: Some(tag) };
        }
        let kept = std::mem::replace(&mut keeper.kept, late);
        Filtered { packets: sum.into_iter().chain(kept).collect(), holds_from: None }
    }

    /// Returns the folded votes of a feed's mirrors.
    fn folded_votes(&mut self, sum: Option<Ink>, pieces: &[(Source, Ink)]) -> Filtered<Ink> {
        let votes: Vec<Ink> = pieces.iter().map(|(_, piece)| piece.clone()).collect();
        let content = self.fold_votes(&votes);
        let folded = sum.map(|sum| Ink { bytes: VOTE_BYTES, content, ..sum });
        Filtered { packets: folded.into_iter().collect(), holds_from: None }
    }

    /// Returns whether this run counts its first piece twice, and whether it gives that piece to the next
    /// wave.
    fn sabotaged_run(&mut self, pieces: usize) -> (bool, bool) {
        self.streams.runs += 1;
        let is_due = self.streams.runs.is_multiple_of(SABOTAGED_RUN);
        match self.setting.sabotage {
            Some(Sabotage::StreamCountTwice) => (is_due, false),
            Some(Sabotage::StreamMixWaves) => (false, is_due && pieces > 1),
            _ => (false, false),
        }
    }

    /// Lets hanging runs return.
    pub fn let_filters_go(&mut self) {
        for (to, input) in std::mem::take(&mut self.streams.hanging) {
            self.agenda.plan(self.now, super::super::Happening::Input { to, input });
        }
    }

    /// Gives the node at `at` an operator, or other data under the operator's id.
    pub fn give_operator(&mut self, at: usize, id: OperatorId, what: Ink) {
        self.streams.operators.insert((at, id), what);
    }

    /// Returns the places that have an operator, with the operator's id.
    pub fn operators(&self) -> impl ExactSizeIterator<Item = (usize, OperatorId)> {
        self.streams.operators.keys().copied()
    }

    /// Returns a place for each operator that it has received.
    pub fn operators_kept(&self) -> &[usize] {
        &self.streams.operators_kept
    }
}

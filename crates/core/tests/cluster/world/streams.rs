//! Streams in the world: filters that add up, users who read, endpoints that push or answer.
//!
//! Whatever the world sees of a stream it also checks at once: that a wave's pieces bear its tag, that a filter has
//! been told of whom it gets something from, that an endpoint is given each packet once and in order.

use super::{Happening, OPERATOR_LOOK, Sum, World, operator};
use std::collections::BTreeSet;
use treefold_core::config::Placement;
use treefold_core::effect::FilterEffect;
use treefold_core::error::JobError;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::stream::operator::{OperatorId, OperatorNews};
use treefold_core::stream::spec::{EndpointEvent, FilterRun, FilterWork, Filtered, Source};
use treefold_core::stream::{StreamEvent, StreamId, StreamOptions, StreamSpec};
use treefold_core::time::Duration;

/// What a stream's endpoints do; the number in the stream's parameters says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// They push when the world says how often, and answer each packet under its tag.
    Both,
    /// They only answer.
    Answer,
    /// They only push.
    Push,
}

impl Habit {
    /// The parameters that say so.
    pub fn params(self) -> Sum {
        Sum { number: self as u64, ..Sum::default() }
    }

    fn of(params: &Sum) -> Self {
        [Self::Both, Self::Answer, Self::Push][params.number as usize]
    }
}

/// An endpoint's part in a stream, as a driver would keep it.
pub struct Pushing {
    pub habit: Habit,
    pub window_bytes: u64,
    pub in_flight_bytes: u64,
    pub sent: u64,
    pub life: u32,
    pub is_over: bool,
    /// The packets it was given in this life.
    pub taken: Vec<u64>,
}

/// What befalls filters on the way up, each in one of so many runs; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilterFaults {
    pub fails_of: usize,
    pub panics_of: usize,
    /// Those that run on workers do not return before they are let go.
    pub hangs_of: usize,
}

/// One node's filter of one stream.
#[derive(Default)]
pub(super) struct Keeper {
    known: BTreeSet<Source>,
    ever: BTreeSet<Source>,
    /// What the filter "lagging" holds back: the last wave's sum.
    kept: Option<(u64, Sum)>,
}

impl World {
    /// The filter "sum" adds up; nobody's packet is worth more than any other's. "lagging" does the same one wave late.
    pub(super) fn filter(&mut self, of: NodeId, effect: FilterEffect<Sum>) {
        match effect {
            FilterEffect::Open { stream, spec } => {
                self.filters.insert((of, stream), Keeper::default());
                if let Some(id) = spec.up_filter.strip_prefix("op:").and_then(OperatorId::parse)
                    && !self.operators.contains(&(of, id))
                {
                    let lacking = Input::Operator(OperatorNews::Lacking { stream, id });
                    return self.at(self.now, Happening::Input(of, lacking));
                }
                let result = match &*spec.up_filter {
                    "unknown" => Err("no filter is called \"unknown\"".into()),
                    _ => Ok(if self.filter_cost > Duration::from_micros(10) {
                        Placement::Pool
                    } else {
                        Placement::Inline
                    }),
                };
                self.at(self.now, Happening::Input(of, Input::FilterOpened { stream, result }));
            }
            FilterEffect::Run(run) => self.run_filter(of, run),
            FilterEffect::Lend { stream, id } => {
                let payload = self.operators.contains(&(of, id)).then(|| operator(id));
                self.at(
                    self.now,
                    Happening::Input(of, Input::Operator(OperatorNews::Lent { stream, id, payload })),
                );
            }
            FilterEffect::Keep { id, payload } => {
                self.operators_kept.push(of);
                let result = if payload == operator(id) {
                    self.operators.insert((of, id));
                    Ok(())
                } else {
                    Err("it is not what its name says".into())
                };
                let kept = Input::Operator(OperatorNews::Kept { id, result });
                self.at(self.now + OPERATOR_LOOK, Happening::Input(of, kept));
            }
            FilterEffect::Joined { stream, source } => {
                let keeper =
                    self.filters.get_mut(&(of, stream)).expect("a filter that hears of others is there");
                assert!(keeper.known.insert(source), "{of}: {source:?} joined twice");
                keeper.ever.insert(source);
            }
            FilterEffect::Replaced { stream, lost, heirs } => {
                let keeper =
                    self.filters.get_mut(&(of, stream)).expect("a filter that hears of others is there");
                assert!(keeper.known.remove(&lost), "{of}: {lost:?} is lost and was not there");
                assert!(heirs.iter().all(|heir| keeper.known.contains(heir)), "{of}: unknown {heirs:?}");
            }
            FilterEffect::Abandon { stream, .. } | FilterEffect::Close { stream } => {
                self.filters.remove(&(of, stream));
            }
        }
    }

    fn run_filter(&mut self, of: NodeId, run: FilterRun<Sum>) {
        let keeper = self.filters.get_mut(&(of, run.stream)).expect("a filter that runs is there");
        let mut holds_from = None;
        let is_up = matches!(run.work, FilterWork::Up(_));
        let packets = match run.work {
            FilterWork::Up(pieces) => {
                // Of one packet alone it is still known which it is.
                let number = if let [(_, only)] = &pieces[..] { only.number } else { 0 };
                let mut sum = Sum { bytes: self.behaviour.partial_bytes, number, ..Sum::default() };
                for (source, mut piece) in pieces {
                    assert!(keeper.ever.contains(&source), "{of}: a piece of {source:?}, who never joined");
                    if matches!(source, Source::Endpoint(_)) {
                        piece.tags.insert(run.tag);
                    }
                    sum.add(piece);
                }
                if self.lags.contains(&run.stream) {
                    holds_from = Some(run.tag);
                    let last = keeper.kept.replace((run.tag, sum));
                    last.map(|(_, sum)| sum).into_iter().collect()
                } else {
                    vec![sum]
                }
            }
            FilterWork::Down(packet) => vec![packet],
        };
        let cost = self.filter_cost;
        let mut befalls = |of: usize| is_up && of > 0 && self.random.below(of) == 0;
        let faults = self.filter_faults;
        let result = if befalls(faults.fails_of) {
            Err(JobError::Failed("a fault".into()))
        } else if befalls(faults.panics_of) {
            Err(JobError::Panicked("a fault".into()))
        } else {
            Ok(Filtered { packets, holds_from })
        };
        let hangs = !run.inline && befalls(faults.hangs_of);
        let done = Input::Filtered { stream: run.stream, run: run.run, result, cost };
        if hangs {
            self.hanging.push((of, done));
        } else {
            self.at(self.now + cost, Happening::Input(of, done));
        }
    }

    /// Filters that hang go on.
    pub fn let_filters_go(&mut self) {
        for (of, done) in core::mem::take(&mut self.hanging) {
            self.at(self.now, Happening::Input(of, done));
        }
    }

    pub fn open_stream(&mut self, i: u32, spec: StreamSpec<Sum>, options: StreamOptions) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let spec = Box::new(spec);
        self.input(self.id(i), Input::Command(Command::StreamOpen { request, spec, options }));
        request
    }

    /// Runs until a stream is open, and says which it is.
    pub fn run_until_open(&mut self, i: u32, request: RequestId) -> StreamId {
        let key = (self.id(i), request);
        let opened = |world: &Self| {
            world.stream_events.get(&key).into_iter().flatten().find_map(|event| match event {
                StreamEvent::Opened { stream, .. } => Some(*stream),
                _ => None,
            })
        };
        self.run_until(|world| opened(world).is_some());
        opened(self).expect("run_until waited for it")
    }

    pub(super) fn take_stream_event(&mut self, of: NodeId, request: RequestId, event: StreamEvent<Sum>) {
        if self.reads && matches!(event, StreamEvent::Wave(_)) {
            let after = self.slow_readers.get(&request).copied().unwrap_or(Duration::ZERO);
            let turn = self.readers_busy.entry(request).or_insert(self.now);
            *turn = (*turn).max(self.now) + after;
            let at = *turn;
            let took = Input::Command(Command::StreamTook { request, waves: 1 });
            self.at(at, Happening::Input(of, took));
        }
        self.stream_events.entry((of, request)).or_default().push(event);
    }

    pub(super) fn take_endpoint_event(
        &mut self,
        of: NodeId,
        stream: StreamId,
        endpoint: u32,
        event: EndpointEvent<Sum>,
    ) {
        let key = (of, stream, endpoint);
        match event {
            EndpointEvent::Opened { spec, window_bytes } => {
                let old = self.endpoints.get(&key);
                assert!(old.is_none_or(|old| old.is_over), "{key:?} opened twice");
                let (sent, life) = old.map_or((0, 0), |it| (it.sent, it.life + 1));
                let habit = Habit::of(&spec.params);
                let pushing = Pushing {
                    habit,
                    window_bytes,
                    in_flight_bytes: 0,
                    sent,
                    life,
                    is_over: false,
                    taken: Vec::new(),
                };
                self.endpoints.insert(key, pushing);
                if let Some(every) = self.push_every.filter(|_| habit != Habit::Answer) {
                    self.at(self.now + every, Happening::Push(of, stream, endpoint, life));
                }
            }
            EndpointEvent::Packet { sequence, tag, .. } => {
                let pushing = self.endpoints.get_mut(&key).expect("an endpoint that is spoken to was opened");
                assert!(
                    pushing.taken.last() < Some(&sequence),
                    "{key:?}: {sequence} after {:?}",
                    pushing.taken
                );
                pushing.taken.push(sequence);
                let took = Input::Command(Command::EndpointTook { stream, endpoint, sequence });
                self.at(self.now + self.take_after, Happening::Input(of, took));
                if self.endpoints[&key].habit != Habit::Push {
                    self.push(key, Some(tag));
                }
            }
            EndpointEvent::Settled { bytes } => {
                let pushing = self.endpoints.get_mut(&key).expect("an endpoint that sent was opened");
                assert!(!pushing.is_over && pushing.in_flight_bytes >= bytes, "{key:?}: settled, not sent");
                pushing.in_flight_bytes -= bytes;
            }
            EndpointEvent::Closed(_) => {
                let pushing = self.endpoints.get_mut(&key).expect("an endpoint that closes was opened");
                assert!(!pushing.is_over, "{key:?} closed twice");
                pushing.is_over = true;
            }
        }
    }

    fn push(&mut self, key: (NodeId, StreamId, u32), tag: Option<u64>) {
        let (of, stream, endpoint) = key;
        let bytes = self.behaviour.partial_bytes;
        let pushing = self.endpoints.get_mut(&key).expect("an endpoint that pushes was opened");
        pushing.sent += 1;
        let number = pushing.sent;
        let payload = Sum { tags: tag.into_iter().collect(), number, ..Sum::of(endpoint, bytes) };
        let send = Command::EndpointSend { stream, endpoint, tag, payload };
        self.at(self.now, Happening::Input(of, Input::Command(send)));
    }

    /// What an endpoint sends is in flight from when its node has it: in which life that is, is seen then.
    pub(super) fn note_sent(&mut self, of: NodeId, input: &Input<Sum>) {
        if let Input::Command(Command::EndpointSend { stream, endpoint, payload, .. }) = input
            && let Some(pushing) = self.endpoints.get_mut(&(of, *stream, *endpoint))
            && !pushing.is_over
        {
            pushing.in_flight_bytes += payload.bytes as u64 + 64;
        }
    }

    /// An endpoint's turn to send, unless its node stands still, its window is full, or it is through.
    pub(super) fn take_turn(&mut self, of: NodeId, stream: StreamId, endpoint: u32, life: u32) {
        let Some(every) = self.push_every else { return };
        let place = &self.places[&of];
        let (is_up, is_stopped) = (place.is_up, place.is_stopped);
        let pushing = &self.endpoints[&(of, stream, endpoint)];
        if !is_up || pushing.is_over || pushing.life != life || pushing.sent >= self.pushes_max {
            return;
        }
        if !is_stopped && pushing.in_flight_bytes < pushing.window_bytes {
            self.push((of, stream, endpoint), None);
        }
        self.at(self.now + every, Happening::Push(of, stream, endpoint, life));
    }
}

//! Streams on the loop: filters are run, endpoints are called, front-ends' users are told.
//!
//! A filter is at home here, or on its way on a worker's thread; core gives it one run at a time, so it is never
//! wanted in two places. One that comes back after core has given it up finds another in its place, and is dropped.

use super::Loop;
use super::asks::{Handle, StreamAsk};
use super::operators::Asker;
use crate::endpoint::{Endpoint, Opening, Outlet, Packet, Took};
use crate::filter::Filters;
use crate::job::Filtering;
use crate::workers::{Task, TaskId};
use bytes::Bytes;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use treefold_core::effect::FilterEffect;
use treefold_core::error::JobError;
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::stream::spec::{EndpointEvent, FilterRun, Filtered, Source, StreamEvent};
use treefold_core::stream::{StreamError, StreamId};

/// So many packets that an endpoint has taken are told core at once, however small they are.
const UNTOLD_PACKETS_MAX: u32 = 32;

/// What a loop keeps of its streams.
pub(crate) struct Streams {
    handle: Handle,
    filters: HashMap<StreamId, Home>,
    fronts: HashMap<RequestId, mpsc::UnboundedSender<StreamEvent<Bytes>>>,
    endpoints: HashMap<(StreamId, u32), Seat>,
}

/// Where a stream's filters are.
pub(super) struct Home {
    /// `None` while a worker has them.
    filters: Option<Filters>,
    /// The run that a worker is at.
    away: Option<u64>,
    /// What they are to be told when they are back.
    joined: Vec<Source>,
    replaced: Vec<(Source, Vec<Source>)>,
}

impl Home {
    /// Tells filters that are here what has happened while they were not.
    fn tell(&mut self, filters: &mut Filters) {
        self.joined.drain(..).for_each(|source| filters.joined(source));
        self.replaced.drain(..).for_each(|(lost, heirs)| filters.replaced(lost, &heirs));
    }
}

/// An endpoint's part in a stream.
struct Seat {
    endpoint: Option<Box<dyn Endpoint>>,
    window_bytes: u64,
    in_flight_bytes: u64,
    was_refused: bool,
    untold_packets: u32,
    untold_bytes: u64,
}

impl Streams {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle, filters: HashMap::new(), fronts: HashMap::new(), endpoints: HashMap::new() }
    }

    /// A stream's filters are on their way here; what they are to hear meanwhile is kept for them.
    pub(super) fn expect_filters(&mut self, stream: StreamId) {
        let home = Home { filters: None, away: None, joined: Vec::new(), replaced: Vec::new() };
        self.filters.insert(stream, home);
    }

    /// A stream's filters have come.
    pub(super) fn put_home(&mut self, stream: StreamId, mut filters: Filters) {
        let Some(home) = self.filters.get_mut(&stream) else { return };
        home.tell(&mut filters);
        home.filters = Some(filters);
    }
}

impl Loop {
    /// Does what core wants done with a filter.
    pub(super) fn perform_filter(self: &Rc<Self>, effect: FilterEffect<Bytes>) {
        match effect {
            FilterEffect::Open { stream, spec } => self.open_filters(stream, &spec),
            FilterEffect::Lend { stream, id } => self.lend_operator(stream, id),
            FilterEffect::Keep { id, payload } => self.keep_operator(Asker::Core(id), payload),
            FilterEffect::Run(run) => self.run_filter(run),
            FilterEffect::Joined { stream, source } => {
                if let Some(home) = self.streams.borrow_mut().filters.get_mut(&stream) {
                    match &mut home.filters {
                        Some(filters) => filters.joined(source),
                        None => home.joined.push(source),
                    }
                }
            }
            FilterEffect::Replaced { stream, lost, heirs } => {
                if let Some(home) = self.streams.borrow_mut().filters.get_mut(&stream) {
                    match &mut home.filters {
                        Some(filters) => filters.replaced(lost, &heirs),
                        None => home.replaced.push((lost, heirs)),
                    }
                }
            }
            FilterEffect::Abandon { stream, run, replace_worker } => {
                self.streams.borrow_mut().filters.remove(&stream);
                if self.workers.abandon(TaskId::Filter(stream, run), replace_worker) {
                    let result = Err(JobError::Failed("it was given up before it began".into()));
                    self.feed(Input::Filtered { stream, run, result, cost: Duration::ZERO.into() });
                }
            }
            FilterEffect::Close { stream } => {
                self.forget_opening(stream);
                drop(self.streams.borrow_mut().filters.remove(&stream));
            }
        }
    }

    fn run_filter(self: &Rc<Self>, run: FilterRun<Bytes>) {
        let FilterRun { stream, run, tag, work, inline } = run;
        let mut streams = self.streams.borrow_mut();
        let filters = streams.filters.get_mut(&stream).and_then(|home| {
            home.away = Some(run);
            home.filters.take()
        });
        drop(streams);
        let Some(mut filters) = filters else {
            let error = JobError::Failed("the stream's filter is not here".into());
            return self.feed(Input::Filtered {
                stream,
                run,
                result: Err(error),
                cost: Duration::ZERO.into(),
            });
        };
        if !inline {
            let filtering = Box::new(Filtering { stream, run, tag, work, filters });
            return self.workers.submit(Task::Filter(filtering));
        }
        let started = Instant::now();
        let result = filters.run(tag, work, self.identity.limits.message_bytes_max);
        self.filter_returned(stream, run, filters, result, started.elapsed());
    }

    /// A filter is back with what it gave.
    pub(super) fn filter_returned(
        self: &Rc<Self>,
        stream: StreamId,
        run: u64,
        mut filters: Filters,
        result: Result<Filtered<Bytes>, JobError>,
        cost: Duration,
    ) {
        {
            let mut streams = self.streams.borrow_mut();
            if let Some(home) = streams.filters.get_mut(&stream).filter(|home| home.away == Some(run)) {
                home.tell(&mut filters);
                home.filters = Some(filters);
                home.away = None;
            }
        }
        self.feed(Input::Filtered { stream, run, result, cost: cost.into() });
    }

    /// Tells a front-end's user.
    pub(super) fn deliver_stream(self: &Rc<Self>, request: RequestId, event: StreamEvent<Bytes>) {
        let is_over = matches!(event, StreamEvent::Closed(_));
        let mut streams = self.streams.borrow_mut();
        // A user who dropped the stream has closed it, and core hears of that.
        if let Some(events) = streams.fronts.get(&request) {
            let _ = events.send(event);
        }
        if is_over {
            streams.fronts.remove(&request);
        }
    }

    /// Calls an endpoint.
    pub(super) fn deliver_endpoint(
        self: &Rc<Self>,
        stream: StreamId,
        endpoint: u32,
        event: EndpointEvent<Bytes>,
    ) {
        match event {
            EndpointEvent::Opened { spec, window_bytes } => {
                let handle = self.streams.borrow().handle.clone();
                let kind = self.registry.endpoint(&spec.service, endpoint);
                let opening = Opening { stream, endpoint, spec: spec.clone(), window_bytes, handle };
                let Some(kind) = kind else { return };
                let seat = Seat {
                    endpoint: Some(kind.open(&opening)),
                    window_bytes,
                    in_flight_bytes: 0,
                    was_refused: false,
                    untold_packets: 0,
                    untold_bytes: 0,
                };
                self.streams.borrow_mut().endpoints.insert((stream, endpoint), seat);
                self.call_endpoint(stream, endpoint, <dyn Endpoint>::opened);
            }
            EndpointEvent::Packet { sequence, tag, payload } => {
                let bytes = payload.len() as u64;
                let packet = Packet { tag, payload, sequence };
                let took = self.call_endpoint(stream, endpoint, |it, outlet| it.packet(outlet, packet));
                if took != Some(Took::Later) {
                    self.note_took(stream, endpoint, sequence, bytes);
                }
            }
            EndpointEvent::Settled { bytes } => {
                let wants_room = {
                    let mut streams = self.streams.borrow_mut();
                    let Some(seat) = streams.endpoints.get_mut(&(stream, endpoint)) else { return };
                    seat.in_flight_bytes = seat.in_flight_bytes.saturating_sub(bytes);
                    if let Some(endpoint) = &mut seat.endpoint {
                        endpoint.settled(bytes);
                    }
                    seat.in_flight_bytes < seat.window_bytes && std::mem::take(&mut seat.was_refused)
                };
                if wants_room {
                    self.call_endpoint(stream, endpoint, <dyn Endpoint>::room);
                }
            }
            EndpointEvent::Closed(reason) => self.close_endpoint(stream, endpoint, &reason),
        }
    }

    fn close_endpoint(&self, stream: StreamId, endpoint: u32, reason: &StreamError) {
        let seat = self.streams.borrow_mut().endpoints.remove(&(stream, endpoint));
        if let Some(mut it) = seat.and_then(|seat| seat.endpoint) {
            it.closed(reason);
        }
    }

    /// Calls an endpoint, and passes on what it sends.
    fn call_endpoint<T>(
        self: &Rc<Self>,
        stream: StreamId,
        endpoint: u32,
        call: impl FnOnce(&mut dyn Endpoint, &mut Outlet<'_>) -> T,
    ) -> Option<T> {
        let mut sends = Vec::new();
        let outcome = {
            let mut streams = self.streams.borrow_mut();
            let seat = streams.endpoints.get_mut(&(stream, endpoint))?;
            let it = seat.endpoint.as_deref_mut()?;
            let mut outlet = Outlet {
                sends: &mut sends,
                in_flight_bytes: &mut seat.in_flight_bytes,
                window_bytes: seat.window_bytes,
                was_refused: &mut seat.was_refused,
            };
            // The author's code is a stranger's; what it panics with has been printed by the program's own hook.
            catch_unwind(AssertUnwindSafe(|| call(it, &mut outlet)))
        };
        let Ok(outcome) = outcome else {
            self.complaints.about(self.identity.node, format_args!("endpoint {endpoint} panicked"));
            self.close_endpoint(stream, endpoint, &StreamError::Closed);
            return None;
        };
        for (tag, payload) in sends {
            self.feed(Input::Command(Command::EndpointSend { stream, endpoint, tag, payload }));
        }
        Some(outcome)
    }

    /// Tells core, now and then, what an endpoint has taken.
    fn note_took(self: &Rc<Self>, stream: StreamId, endpoint: u32, sequence: u64, bytes: u64) {
        {
            let mut streams = self.streams.borrow_mut();
            if let Some(seat) = streams.endpoints.get_mut(&(stream, endpoint)) {
                seat.untold_packets += 1;
                seat.untold_bytes += bytes;
                if seat.untold_packets < UNTOLD_PACKETS_MAX && seat.untold_bytes < seat.window_bytes / 16 {
                    return;
                }
                (seat.untold_packets, seat.untold_bytes) = (0, 0);
            }
        }
        self.feed(Input::Command(Command::EndpointTook { stream, endpoint, sequence }));
    }

    /// Something was asked about a stream.
    pub(super) fn take_stream_ask(self: &Rc<Self>, ask: StreamAsk) {
        let command = match ask {
            StreamAsk::Open { request, spec, options, events } => {
                self.streams.borrow_mut().fronts.insert(request, events);
                Command::StreamOpen { request, spec, options }
            }
            StreamAsk::Send { request, tag, to, payload } => {
                Command::StreamSend { request, tag, to, payload }
            }
            StreamAsk::Took { request, waves } => Command::StreamTook { request, waves },
            StreamAsk::Close { request } => {
                self.streams.borrow_mut().fronts.remove(&request);
                Command::StreamClose { request }
            }
            StreamAsk::EndpointSend { stream, endpoint, tag, payload } => {
                Command::EndpointSend { stream, endpoint, tag, payload }
            }
            StreamAsk::EndpointTook { stream, endpoint, sequence } => {
                Command::EndpointTook { stream, endpoint, sequence }
            }
        };
        self.feed(Input::Command(command));
    }
}

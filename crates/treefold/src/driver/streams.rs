//! Streams on the loop: runs filters, calls endpoints, and informs the users of front-ends.
//!
//! A stream's filters are on the loop or, during a run, on a worker's thread. Core requests one run at a
//! time, so the filters are never needed in two places. If filters return after core has given them up,
//! others have replaced them, and the returned ones are dropped.

use super::Loop;
use super::asks::{Handle, StreamAsk};
use super::meter::Meter;
use super::operators::Asker;
use crate::endpoint::{Endpoint, Missed, Opening, Outlet, Packet, Packets, Took, Untold};
use crate::filter::{Filters, News};
use crate::job::{Filtering, text_of};
use crate::stream::FrontEndUser;
use crate::workers::{Task, TaskId};
use bytes::Bytes;
use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;
use treefold_core::effect::FilterEffect;
use treefold_core::error::{JobError, Reason};
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::stream::spec::{EndpointEvent, FilterRun, Filtered, StreamEvent};
use treefold_core::stream::{StreamError, StreamId};

/// The most news that wait for the next run of a stream's filters.
const FILTER_NEWS_MAX: usize = 1_024;

/// A loop's streams.
pub(crate) struct Streams {
    handle: Handle,
    filters: HashMap<StreamId, Home>,
    fronts: HashMap<RequestId, FrontEndUser>,
    endpoints: HashMap<(StreamId, u32), Seat>,
    /// A reused buffer for the packets that an endpoint sends during a call. Empty between calls.
    sends: Vec<(Option<u64>, Bytes)>,
}

/// The filters of a stream, or the place where they will return.
#[derive(Default)]
pub(super) struct Home {
    /// `None` while a worker has them.
    filters: Option<Filters>,
    /// The run that a worker executes.
    away: Option<u64>,
    meter: Meter,
    /// News for the filters before their next run. They are delivered where the run takes place, because
    /// handling them may take as long as the run.
    news: Vec<News>,
}

/// An endpoint's part in a stream.
struct Seat {
    endpoint: Box<dyn Endpoint>,
    window_bytes: u64,
    acknowledge_bytes: u64,
    in_flight_bytes: u64,
    was_refused: bool,
    untold: Untold,
}

impl Streams {
    pub(super) fn new(handle: Handle) -> Self {
        let (filters, fronts, endpoints, sends) = Default::default();
        Self { handle, filters, fronts, endpoints, sends }
    }

    /// Expects a stream's filters. News for them are kept until they arrive.
    pub(super) fn expect_filters(&mut self, stream: StreamId) {
        self.filters.insert(stream, Home::default());
    }

    /// True if a stream expects filters, or has them.
    pub(super) fn expects_filters(&self, stream: StreamId) -> bool {
        self.filters.contains_key(&stream)
    }

    /// Stores a stream's filters, which have been opened.
    pub(super) fn put_home(&mut self, stream: StreamId, filters: Filters) {
        if let Some(home) = self.filters.get_mut(&stream) {
            home.filters = Some(filters);
        }
    }

    fn tell_filters(&mut self, stream: StreamId, news: News) {
        let Some(home) = self.filters.get_mut(&stream) else { return };
        home.news.push(news);
        // Idle filters that receive much news about other nodes get it now.
        if home.news.len() >= FILTER_NEWS_MAX
            && let Some(filters) = &mut home.filters
        {
            filters.tell(home.news.drain(..));
        }
    }
}

impl Loop {
    /// Performs an effect of core on a filter.
    pub(super) fn perform_filter(self: &Rc<Self>, effect: FilterEffect<Bytes>) {
        match effect {
            FilterEffect::Open { stream, spec } => self.open_filters(stream, &spec),
            FilterEffect::Lend { stream, id } => self.lend_operator(stream, id),
            FilterEffect::Keep { id, payload } => self.keep_operator(Asker::Core(id), payload),
            FilterEffect::Run(run) => self.run_filter(run),
            FilterEffect::Joined { stream, source } => {
                self.streams.borrow_mut().tell_filters(stream, News::Joined(source));
            }
            FilterEffect::Replaced { stream, lost, heirs } => {
                self.streams.borrow_mut().tell_filters(stream, News::Replaced(lost, heirs));
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
        let at_home = streams.filters.get_mut(&stream).and_then(|home| {
            home.away = Some(run);
            Some((home.filters.take()?, std::mem::take(&mut home.news), inline.then(|| home.meter.begin())))
        });
        drop(streams);
        let Some((mut filters, news, began)) = at_home else {
            let error = JobError::Failed("the stream's filter is not here".into());
            let cost = Duration::ZERO.into();
            return self.feed(Input::Filtered { stream, run, result: Err(error), cost });
        };
        let Some(began) = began else {
            let filtering = Box::new(Filtering { stream, run, tag, work, news, filters });
            return self.workers.submit(Task::Filter(filtering));
        };
        filters.tell(news);
        let result = filters.run(tag, work, self.identity.limits.message_bytes_max);
        let cost = {
            let streams = self.streams.borrow();
            let home = streams.filters.get(&stream);
            home.map_or(Duration::ZERO, |home| home.meter.cost(began, self.inline_cost_max))
        };
        self.filter_returned(stream, run, filters, result, cost);
    }

    /// A filter has returned with the result of its run.
    pub(super) fn filter_returned(
        self: &Rc<Self>,
        stream: StreamId,
        run: u64,
        filters: Filters,
        result: Result<Filtered<Bytes>, JobError>,
        cost: Duration,
    ) {
        {
            let mut streams = self.streams.borrow_mut();
            if let Some(home) = streams.filters.get_mut(&stream).filter(|home| home.away == Some(run)) {
                home.filters = Some(filters);
                home.away = None;
            }
        }
        self.feed(Input::Filtered { stream, run, result, cost: cost.into() });
    }

    /// Informs a front-end's user.
    pub(super) fn deliver_stream(self: &Rc<Self>, request: RequestId, event: StreamEvent<Bytes>) {
        let is_over = matches!(event, StreamEvent::Closed(_));
        let mut streams = self.streams.borrow_mut();
        if let Some(user) = streams.fronts.get(&request) {
            user.tell(event);
        }
        if is_over {
            streams.fronts.remove(&request);
        }
    }

    /// Delivers an event to an endpoint.
    pub(super) fn deliver_endpoint(
        self: &Rc<Self>,
        stream: StreamId,
        endpoint: u32,
        event: EndpointEvent<Bytes>,
    ) {
        match event {
            EndpointEvent::Opened { spec, window_bytes, acknowledge_bytes } => {
                let handle = self.streams.borrow().handle.clone();
                let opening = Opening { stream, endpoint, spec, window_bytes, acknowledge_bytes, handle };
                self.open_endpoint(&opening);
            }
            EndpointEvent::Packet { sequence, tag, payload } => {
                let bytes = payload.len() as u64;
                let packet = Packet { tag, payload, sequence };
                let took = self.call_endpoint(stream, endpoint, |it, outlet| it.packet(outlet, packet));
                if took != Some(Took::Later) {
                    self.note_took(stream, endpoint, sequence, 1, bytes);
                }
            }
            EndpointEvent::Packets(run) => {
                let bytes = run.packets.iter().map(|(_, payload)| payload.len() as u64).sum();
                let (sequence, packets) = (run.last(), run.packets.len());
                let run = Packets::of(run);
                let took = self.call_endpoint(stream, endpoint, |it, outlet| it.packets(outlet, run));
                if took != Some(Took::Later) {
                    self.note_took(stream, endpoint, sequence, packets, bytes);
                }
            }
            EndpointEvent::Missed { first, last } => {
                self.call_endpoint(stream, endpoint, |it, outlet| it.missed(outlet, Missed { first, last }));
            }
            EndpointEvent::Settled { bytes } => {
                let wants_room = {
                    let mut streams = self.streams.borrow_mut();
                    let Some(seat) = streams.endpoints.get_mut(&(stream, endpoint)) else { return };
                    seat.in_flight_bytes = seat.in_flight_bytes.saturating_sub(bytes);
                    seat.in_flight_bytes < seat.window_bytes && std::mem::take(&mut seat.was_refused)
                };
                self.call_endpoint(stream, endpoint, |it, outlet| {
                    it.settled(bytes);
                    if wants_room {
                        it.room(outlet);
                    }
                });
            }
            EndpointEvent::Closed(reason) => self.close_endpoint(stream, endpoint, &reason),
        }
    }

    fn open_endpoint(self: &Rc<Self>, opening: &Opening) {
        let (stream, endpoint) = (opening.stream, opening.endpoint);
        let Some(kind) = self.registry.endpoint(&opening.spec.service, endpoint) else {
            return self.lose_endpoint(stream, endpoint, Reason::NotHosted);
        };
        if !kind.admits(opening.spec.opener) {
            let why = "the opener's certificate does not give it the right to this endpoint";
            return self.lose_endpoint(stream, endpoint, Reason::LocalFailed(why.into()));
        }
        let it = match catch_unwind(AssertUnwindSafe(|| kind.open(opening))) {
            Ok(it) => it,
            Err(panic) => return self.lose_endpoint(stream, endpoint, panicked(panic.as_ref())),
        };
        let seat = Seat {
            endpoint: it,
            window_bytes: opening.window_bytes,
            acknowledge_bytes: opening.acknowledge_bytes,
            in_flight_bytes: 0,
            was_refused: false,
            untold: Untold::default(),
        };
        self.streams.borrow_mut().endpoints.insert((stream, endpoint), seat);
        self.call_endpoint(stream, endpoint, <dyn Endpoint>::opened);
    }

    fn close_endpoint(&self, stream: StreamId, endpoint: u32, reason: &StreamError) {
        let seat = self.streams.borrow_mut().endpoints.remove(&(stream, endpoint));
        if let Some(Seat { endpoint: mut it, .. }) = seat {
            // Dropping the endpoint runs its author's code too.
            if catch_unwind(AssertUnwindSafe(move || it.closed(reason))).is_err() {
                self.complaints.about(self.identity.node, format_args!("endpoint {endpoint} panicked"));
            }
        }
    }

    /// Ends an endpoint that contributes nothing more.
    fn lose_endpoint(self: &Rc<Self>, stream: StreamId, endpoint: u32, reason: Reason) {
        self.complaints.about(self.identity.node, format_args!("endpoint {endpoint} is gone: {reason}"));
        self.close_endpoint(stream, endpoint, &StreamError::Closed);
        self.feed(Input::Command(Command::EndpointGone { stream, endpoint, reason }));
    }

    /// Calls an endpoint and passes on the packets that it sends.
    fn call_endpoint<T>(
        self: &Rc<Self>,
        stream: StreamId,
        endpoint: u32,
        call: impl FnOnce(&mut dyn Endpoint, &mut Outlet<'_>) -> T,
    ) -> Option<T> {
        let mut left = None;
        let (outcome, mut sends) = {
            let mut streams = self.streams.borrow_mut();
            let Streams { endpoints, sends, .. } = &mut *streams;
            let seat = endpoints.get_mut(&(stream, endpoint))?;
            let mut outlet = Outlet {
                sends,
                in_flight_bytes: &mut seat.in_flight_bytes,
                window_bytes: seat.window_bytes,
                was_refused: &mut seat.was_refused,
                left: &mut left,
            };
            // The endpoint's code is not ours and may panic. The program's panic hook has then printed the
            // message.
            let it = &mut *seat.endpoint;
            (catch_unwind(AssertUnwindSafe(|| call(it, &mut outlet))), std::mem::take(sends))
        };
        for (tag, payload) in sends.drain(..) {
            self.feed(Input::Command(Command::EndpointSend { stream, endpoint, tag, payload }));
        }
        self.streams.borrow_mut().sends = sends;
        let reason = match &outcome {
            Ok(_) => left.map(Reason::LocalFailed),
            Err(panic) => Some(panicked(panic.as_ref())),
        };
        if let Some(reason) = reason {
            self.lose_endpoint(stream, endpoint, reason);
        }
        outcome.ok()
    }

    /// Informs core about the packets that an endpoint has taken, but not after every packet.
    fn note_took(
        self: &Rc<Self>,
        stream: StreamId,
        endpoint: u32,
        sequence: u64,
        packets: usize,
        bytes: u64,
    ) {
        {
            let mut streams = self.streams.borrow_mut();
            if let Some(seat) = streams.endpoints.get_mut(&(stream, endpoint))
                && !seat.untold.note(packets, bytes, seat.acknowledge_bytes)
            {
                return;
            }
        }
        self.feed(Input::Command(Command::EndpointTook { stream, endpoint, sequence }));
    }

    /// Handles requests about streams. Packets that wait together for all endpoints of a stream go down together.
    pub(super) fn take_stream_asks(self: &Rc<Self>, asks: impl Iterator<Item = StreamAsk>) {
        let mut run: Option<(RequestId, Vec<(u64, Bytes)>)> = None;
        for ask in asks {
            match (ask, &mut run) {
                (StreamAsk::Send { request, tag, to: None, payload }, Some((of, packets)))
                    if *of == request =>
                {
                    packets.push((tag, payload));
                }
                (StreamAsk::Send { request, tag, to: None, payload }, _) => {
                    self.send_run(run.replace((request, vec![(tag, payload)])));
                }
                (ask, _) => {
                    self.send_run(run.take());
                    self.take_stream_ask(ask);
                }
            }
        }
        self.send_run(run);
    }

    fn send_run(self: &Rc<Self>, run: Option<(RequestId, Vec<(u64, Bytes)>)>) {
        if let Some((request, packets)) = run {
            self.feed(Input::Command(Command::StreamSendRun { request, packets }));
        }
    }

    /// Handles a request about a stream.
    fn take_stream_ask(self: &Rc<Self>, ask: StreamAsk) {
        let command = match ask {
            StreamAsk::Open { request, spec, options, user } => {
                self.streams.borrow_mut().fronts.insert(request, user);
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
            StreamAsk::EndpointGone { stream, endpoint, reason } => {
                Command::EndpointGone { stream, endpoint, reason }
            }
        };
        self.feed(Input::Command(command));
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Reason {
    Reason::LocalPanicked(text_of(panic).into())
}

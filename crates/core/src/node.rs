//! The node: the one value that a driver feeds and drains.
//!
//! ```text
//!               ┌──────────────────────────── Node ────────────────────────────┐
//!  handle_input │ message, command ─▶ the book that it concerns                │ poll_effect
//! ─────────────▶│ job done ─▶ node/jobs ─▶ its wave, call or stream            │─────────────▶
//! handle_timeout│ datagram ─▶ node/gossip ─▶ membership, load                  │ poll_timeout
//!               └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! A node consists of a context, which all modules share, and one book for each module. A book owns its
//! tables and changes only these and the context. Input that concerns several books is dispatched here.
//!
//! A message from a node to itself (a front that sits in its tree) stays inside the node. The driver never
//! sees it.

use crate::call::caller::Requester;
use crate::call::table::Calls;
use crate::config::NodeConfig;
use crate::effect::{Effect, Event};
use crate::id::NodeId;
use crate::input::{Command, Input};
use crate::load::figure::LoadFigure;
use crate::membership::view::View;
use crate::message::{Message, Payload};
use crate::node::context::{Context, Leaving};
use crate::placement::PlacementReport;
use crate::placement::book::Placements;
use crate::push::table::Pushes;
use crate::schedule::share::SharesReport;
use crate::stream::table::Streams;
use crate::stream::work::StreamWork;
use crate::time::Instant;
use crate::timer::Wake;
use crate::wave::table::Waves;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use gossip::Gossip;

/// Borrows the tables that a wave may change while the wave is out of its table.
macro_rules! desk {
    ($node:expr) => {
        $crate::wave::table::Desk { cx: &mut $node.cx, waves: &mut $node.waves, pushes: &mut $node.pushes }
    };
}

pub(crate) mod context;
mod gossip;
mod jobs;
pub(crate) mod path;
mod report;
pub(crate) mod sharing;
#[cfg(test)]
pub(crate) mod tests;

pub use gossip::DatagramClass;

/// A node as a pure state machine: inputs in, effects out.
///
/// Feed it with [`Node::handle_input`] and [`Node::handle_timeout`], then drain [`Node::poll_effect`] until it
/// is empty, then ask [`Node::poll_timeout`] when it next wants to be woken.
///
/// It consists of a context, which all modules share, and one book for each module. A book changes only its
/// tables and the context. Input that concerns several books is dispatched here.
pub struct Node<P> {
    pub(crate) cx: Context<P>,
    calls: Calls<P>,
    waves: Waves<P>,
    streams: Streams<P>,
    pushes: Pushes<P>,
    placements: Placements,
    gossip: Gossip,
}

impl<P: Payload> Node<P> {
    /// A node that has just started. It does nothing before its first input or timeout.
    pub fn new(config: NodeConfig, now: Instant) -> Self {
        let mut node = Self {
            calls: Calls::default(),
            waves: Waves::new(&config),
            streams: Streams::default(),
            pushes: Pushes::new(),
            placements: Placements::new(&config),
            gossip: Gossip::default(),
            cx: Context::new(config, now),
        };
        node.cx.part_rooms();
        node.gossip.start(&mut node.cx, now);
        node
    }

    /// Handles one input.
    pub fn handle_input(&mut self, now: Instant, input: Input<P>) {
        self.cx.loads.pauses.look(self.cx.timers.next_at(), now);
        match input {
            Input::Message { from, message } => {
                self.gossip.heard(from);
                self.handle_message(now, from, message);
            }
            Input::Refused { from, problem, answer } => {
                self.cx.note_bad_message(from, &problem);
                if let Some(answer) = answer {
                    self.cx.counters.calls.rejected += u64::from(matches!(*answer, Message::Reply { .. }));
                    self.cx.send(from, *answer);
                }
            }
            Input::JobDone { job, result, cost } => self.handle_job_done(now, job, result, cost),
            Input::SlicesDone { job, result, cost } => self.handle_slices_done(now, job, result, cost),
            Input::FilterOpened { stream, result } => {
                self.streams.handle_filter_opened(&mut self.cx, now, stream, result);
            }
            Input::Filtered { stream, run, result, cost } => {
                self.streams.handle_filtered(&mut self.cx, now, stream, run, result, cost);
            }
            Input::Operator(news) => self.streams.handle_operator_news(&mut self.cx, now, news),
            Input::Datagram { from, bytes } => self.handle_datagram(now, from, &bytes),
            Input::Connected { peer } => self.handle_connected(now, peer),
            Input::Lost { peer } => self.handle_lost(now, peer),
            Input::Command(command) => self.handle_command(now, command),
            Input::Loaded { service, partition, result } => {
                self.placements.handle_loaded(&mut self.cx, now, &service, partition, result);
            }
        }
        self.finish_ended(now);
        self.go_round(now);
    }

    /// Handles the timers that are due. [`Node::poll_timeout`] names the time; an earlier call is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.cx.loads.pauses.look(self.cx.timers.next_at(), now);
        while let Some(wake) = self.cx.timers.pop_due(now) {
            match wake {
                Wake::Wave(tag) => desk!(self).handle_wave_timeout(now, tag),
                Wake::Polls(wave) => self.calls.handle_polls_over(&mut desk!(self), now, wave),
                Wake::Slices(first, partition) => self.waves.expire_slices(&mut self.cx, (first, partition)),
                Wake::Job(job) => self.handle_stuck(now, job),
                Wake::Stream(stream) => self.streams.handle_stream_timeout(&mut self.cx, now, stream),
                Wake::Pushes => self.pushes.handle_pushes_due(&mut self.cx, now),
                Wake::Card => desk!(self).handle_card_due(now),
                Wake::Kept => self.waves.expire_kept(&mut self.cx, now),
                Wake::Placement => self.placements.review(&mut self.cx, now),
                Wake::Departed => self.handle_proofs_due(now),
                Wake::Announce => {
                    self.look_after_processes(now);
                    self.gossip.announce_load(&mut self.cx, now);
                }
                Wake::Exchange => {
                    self.look_after_processes(now);
                    let has_streams = !self.streams.fronts.is_empty();
                    self.gossip.exchange_cards(&mut self.cx, now, has_streams);
                }
            }
            self.finish_ended(now);
        }
        self.cx.sight.handle_timeout(now);
        self.go_round(now);
    }

    /// The next effect for the driver; `None` when there are no more.
    pub fn poll_effect(&mut self) -> Option<Effect<P>> {
        self.cx.effects.pop_front()
    }

    /// When [`Node::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.cx.timers.next_at(), self.cx.sight.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Judges the calls whose waves have just ended.
    fn finish_ended(&mut self, now: Instant) {
        self.calls.finish_ended(&mut desk!(self), now);
    }

    /// Repeats until nothing changes: handles the node's messages to itself, gives queued work to free
    /// processors, and passes on what membership wants to send. A message to itself sets no timer, so nothing
    /// would wake the node for it later.
    fn go_round(&mut self, now: Instant) {
        loop {
            while let Some(message) = self.cx.to_self.pop_front() {
                self.handle_message(now, self.cx.me, message);
                self.finish_ended(now);
            }
            self.dispatch(now);
            self.waves.grant_waiting(&mut self.cx);
            self.drain_sight(now);
            if self.cx.to_self.is_empty() {
                break;
            }
        }
        self.placements.note_view(&mut self.cx, now);
        self.sweep_queue();
        if !self.cx.jobs.unwanted.is_empty() {
            self.cancel_unwanted(now);
        }
        if self.cx.leaving == Leaving::Draining
            && self.calls.open.is_empty()
            && self.waves.has_no_open_waves()
        {
            self.cx.leaving = Leaving::Drained;
            self.cx.effects.push_back(Effect::Deliver(Event::Drained));
        }
    }

    /// The streams that this node takes part in.
    pub fn stream_work(&self) -> impl Iterator<Item = StreamWork> + '_ {
        self.streams.work()
    }

    fn handle_message(&mut self, now: Instant, from: NodeId, message: Message<P>) {
        match message {
            Message::Call(call) => desk!(self).handle_call(now, from, *call),
            Message::Partial(partial) => self.calls.handle_partial(&mut desk!(self), now, from, partial),
            Message::Offer { tag, bytes } => self.waves.handle_offer(&mut self.cx, from, tag, bytes),
            Message::Grant { tag } => self.waves.handle_grant(&mut self.cx, from, tag),
            Message::Cancel { tag } => desk!(self).handle_cancel(now, from, tag),
            Message::Request(request) => {
                let request = *request;
                let requester = Requester::Peer(from, request.id);
                self.calls.start_call(
                    &mut desk!(self),
                    now,
                    requester,
                    request.name,
                    request.params,
                    request.options,
                );
            }
            Message::CancelRequest { id } => {
                self.calls.cancel_call(&mut desk!(self), Requester::Peer(from, id));
            }
            Message::Stream(message) => self.streams.handle_stream(&mut self.cx, now, from, *message),
            Message::Push(message) => desk!(self).handle_push(now, from, *message),
            Message::Cards(cards) => self.cx.absorb_cards(now, from, cards),
            Message::WantCards => self.cx.send_cards(from),
            Message::Gossip { datagram } => self.handle_gossip(now, from, &datagram),
            Message::StatusRequest { id } => {
                let status = Box::new(self.status(now));
                self.cx.send(from, Message::Status { id, status });
            }
            Message::SharesRequest { id, settings } => {
                self.cx.handle_shares_request(now, from, id, &settings);
            }
            Message::PlacementRequest { id, ask } => {
                self.placements.answer_peer(&mut self.cx, now, (from, id), &ask);
            }
            Message::Reply { .. }
            | Message::Status { .. }
            | Message::OperatorReply { .. }
            | Message::OperatorLent { .. }
            | Message::Reduces { .. }
            | Message::SharesReply { .. }
            | Message::PlacementReply { .. } => {
                self.cx.note_bad_message(from, "unexpected answer: this node sends no such requests");
            }
            Message::OperatorRequest { .. } | Message::OperatorWant { .. } | Message::ReducesWant => {
                self.cx.note_bad_message(from, "unexpected request: this node keeps no operators");
            }
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command<P>) {
        match command {
            Command::Call { request, name, params, options } => {
                self.calls.start_call(
                    &mut desk!(self),
                    now,
                    Requester::Local(request),
                    name,
                    params,
                    options,
                );
            }
            Command::Cancel { request } => {
                self.calls.cancel_call(&mut desk!(self), Requester::Local(request));
            }
            Command::Status { request } => {
                let status = Box::new(self.status(now));
                self.cx.effects.push_back(Effect::Deliver(Event::Status { request, status }));
            }
            Command::Shares { request, settings } => self.cx.set_shares_for_user(now, request, &settings),
            Command::StreamOpen { request, spec, options } => {
                self.streams.open_stream(&mut self.cx, now, request, *spec, &options);
            }
            Command::StreamSend { request, tag, to, payload } => {
                self.streams.send_down(&mut self.cx, now, request, tag, to, payload);
            }
            Command::StreamSendRun { request, packets } => {
                self.streams.send_run_down(&mut self.cx, now, request, packets);
            }
            Command::StreamTook { request, waves } => {
                self.streams.take_waves(&mut self.cx, now, request, waves);
            }
            Command::StreamClose { request } => self.streams.close_stream(&mut self.cx, now, request),
            Command::EndpointSend { stream, endpoint, tag, payload } => {
                self.streams.send_from_endpoint(&mut self.cx, now, stream, endpoint, tag, payload);
            }
            Command::EndpointGone { stream, endpoint, reason } => {
                self.streams.lose_endpoint(&mut self.cx, now, stream, endpoint, reason);
            }
            Command::EndpointTook { stream, endpoint, sequence } => {
                self.streams.note_endpoint_took(&mut self.cx, now, stream, endpoint, sequence);
            }
            Command::Join(addrs) => self.cx.join(now, addrs),
            Command::StandBelow { parent } => self.cx.stand_below(now, parent),
            Command::Learn { kind } => self.cx.learn(now, kind),
            Command::Leave => self.leave(now),
            Command::Placement { request, ask } => {
                self.placements.answer_user(&mut self.cx, now, request, &ask);
            }
            Command::Hold { request, service, partition, holds } => {
                self.placements.hold_by_hand(&mut self.cx, now, request, (&service, partition, holds));
            }
        }
    }

    fn handle_connected(&mut self, now: Instant, peer: NodeId) {
        self.gossip.peers.insert(peer);
        self.cx.sight.report_connected(now, peer);
        if self.cx.me.is_client() {
            self.cx.send(peer, Message::WantCards);
        }
    }

    fn handle_lost(&mut self, now: Instant, peer: NodeId) {
        self.gossip.part(peer);
        if peer.is_client() {
            self.calls.cancel_calls_of(&mut desk!(self), peer);
            desk!(self).lose_worker(now, peer);
        } else {
            self.cx.sight.report_lost(now, peer);
        }
        self.calls.give_up_polls(&mut desk!(self), now, peer);
        self.give_up_peer(now, peer);
    }

    /// This node's id.
    pub fn id(&self) -> NodeId {
        self.cx.me
    }

    /// Each application's share of the node, and what it has used.
    pub fn shares_report(&self, now: Instant) -> SharesReport {
        self.cx.shares_report(now)
    }

    /// The placement of partitions at this node.
    pub fn placement_report(&self) -> PlacementReport {
        self.placements.report(&self.cx)
    }

    /// The peers that wait for something here: a call, a push or a stream.
    pub fn busy_peers(&self) -> BTreeSet<NodeId> {
        let mut busy: BTreeSet<NodeId> = self.pushes.by_peer.keys().copied().collect();
        busy.extend(self.calls.requests.keys().filter_map(Requester::peer));
        busy.extend(self.streams.parents());
        busy.extend(self.waves.parents());
        busy
    }

    /// True if the peer is attached here as a worker that pushes.
    pub fn has_worker(&self, peer: NodeId) -> bool {
        self.pushes.by_peer.contains_key(&peer)
    }

    /// The members in sight and the partitions that they hold.
    pub fn view(&self) -> &View {
        self.cx.view()
    }

    /// How busy this node is, as it reports it to others.
    pub fn load_figure(&self) -> LoadFigure {
        self.cx.load_figure()
    }
}

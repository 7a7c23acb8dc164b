//! One node in a stream, fed by hand. The test writes out the messages of its parent, children
//! and endpoints, and reads the messages that it has sent.

use super::addr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use treefold_core::config::{NodeConfig, Placement, Tuning};
use treefold_core::effect::{Effect, Event, FilterEffect, TracePoint};
use treefold_core::error::{JobError, Missing, Reason};
use treefold_core::id::NodeId;
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::membership::card::{MemberCard, ServiceCard};
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::right::Rights;
use treefold_core::stream::message::{
    StreamMessage, StreamNews, StreamOpen, StreamReport, StreamSettled, StreamUp,
};
use treefold_core::stream::places::{Places, SeatNumber};
use treefold_core::stream::spec::{EndpointEvent, FilterRun, Filtered};
use treefold_core::stream::tags::TagRuns;
use treefold_core::stream::work::StreamWork;
use treefold_core::stream::{StreamId, StreamSpec, Synchronisation};
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::Tree;
use treefold_sim::world::ink::Ink;

pub const STREAM: StreamId = StreamId { origin: 77, sequence: 1 };
/// The number of the node that is fed; its parent is 1.
pub const ME: u16 = 10;

pub fn peer(number: u16) -> NodeId {
    NodeId::new(addr(number), 1 << 16 | u64::from(number))
}

pub fn set(endpoints: &[u32]) -> PartitionSet {
    endpoints.iter().copied().collect()
}

pub fn leaf(number: u16, endpoints: &[u32]) -> Tree {
    Tree::leaf(peer(number), set(endpoints))
}

pub fn inner(number: u16, endpoints: &[u32], below: &[Tree]) -> Tree {
    Tree::join(peer(number), set(endpoints), below)
}

pub fn packet(bytes: u32) -> Ink {
    Ink { bytes, ..Ink::params(0, 1.0) }
}

/// The node, and its outputs that the test has not read.
pub struct Lone {
    pub node: Node<Ink>,
    pub now: Instant,
    pub spec: Arc<StreamSpec<Ink>>,
    pub said: Vec<(NodeId, StreamMessage<Ink>)>,
    pub told: Vec<(u32, EndpointEvent<Ink>)>,
    pub runs: VecDeque<FilterRun<Ink>>,
    pub abandoned: Vec<(u64, bool)>,
    pub filters_opened: usize,
    pub complaints: Vec<String>,
    /// The front-end's layout: its epoch, and the number of each seat.
    epoch: u64,
    numbers: BTreeMap<NodeId, SeatNumber>,
    /// The place and epoch that each child was last sent.
    pub places: BTreeMap<NodeId, (u64, u64)>,
}

impl Lone {
    /// A node that hosts endpoints 1, 2 and 11, and knows no stream.
    pub fn new(synchronisation: Synchronisation, up_filter: &str, limits: Limits) -> Self {
        let mut card = MemberCard::new(peer(ME));
        card.processors = 2;
        let service = ServiceCard { partitions: set(&[1, 2, 11]), total: 64, declared: true, placed: None };
        card.services.insert("s".into(), service);
        let config = NodeConfig {
            card,
            kinds: Vec::new(),
            tuning: Tuning::LAN,
            limits,
            pushed: Default::default(),
            placed: Default::default(),
            shares: BTreeMap::new(),
            seed: 1,
        };
        let spec = Arc::new(StreamSpec {
            service: "s".into(),
            up_filter: up_filter.into(),
            down_filter: "".into(),
            filter_params: packet(0),
            synchronisation,
            params: packet(0),
            lag_bytes_max: None,
            opener: Rights::ALL,
        });
        Self {
            node: Node::new(config, Instant::START),
            now: Instant::START,
            spec,
            said: Vec::new(),
            told: Vec::new(),
            runs: VecDeque::new(),
            abandoned: Vec::new(),
            filters_opened: 0,
            complaints: Vec::new(),
            epoch: 0,
            numbers: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// As [`new`](Self::new), in the stream: its own endpoints and children, all of which have
    /// answered.
    pub fn open(synchronisation: Synchronisation, own: &[u32], children: &[Tree]) -> Self {
        let mut lone = Self::new(synchronisation, "", Limits::DEFAULT);
        lone.begin(own, children);
        lone
    }

    pub fn begin(&mut self, own: &[u32], children: &[Tree]) {
        let open = self.asked(inner(ME, own, children));
        self.hear(1, StreamMessage::Open(open));
        children.iter().for_each(|tree| self.hear_news(tree, &[]));
        self.said.clear();
    }

    /// The parent's `Open` in the next epoch: nodes that have a place keep it, and others begin.
    pub fn asked(&mut self, tree: Tree) -> StreamOpen<Ink> {
        self.asked_anew(tree, &[])
    }

    /// As [`asked`](Self::asked), with the nodes `anew` beginning anew.
    pub fn asked_anew(&mut self, tree: Tree, anew: &[u16]) -> StreamOpen<Ink> {
        self.asked_with(tree, anew, &[])
    }

    /// As [`asked_anew`](Self::asked_anew), with the nodes `moved` given a new parent.
    pub fn asked_with(&mut self, tree: Tree, anew: &[u16], moved: &[u16]) -> StreamOpen<Ink> {
        self.epoch += 1;
        let beginning = SeatNumber::beginning(self.epoch);
        let numbers: Vec<SeatNumber> = tree
            .seats()
            .iter()
            .map(|seat| {
                let number = self.numbers.entry(seat.node).or_insert(beginning);
                if anew.iter().any(|&it| peer(it) == seat.node) {
                    *number = beginning;
                } else if moved.iter().any(|&it| peer(it) == seat.node) {
                    number.place = self.epoch;
                }
                *number
            })
            .collect();
        StreamOpen {
            stream: STREAM,
            spec: Arc::clone(&self.spec),
            places: Places::new(tree, numbers).expect("a number for each seat"),
            epoch: self.epoch,
            levels: 3,
            window_bytes: 1 << 20,
            first_tag: 1,
            packets_before: 0,
            takes_unfiltered: false,
        }
    }

    pub fn input(&mut self, input: Input<Ink>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.node.handle_input(self.now, input);
            while let Some(effect) = self.node.poll_effect() {
                inputs.extend(self.carry_out(effect));
            }
        }
    }

    fn carry_out(&mut self, effect: Effect<Ink>) -> Option<Input<Ink>> {
        match effect {
            Effect::Send { to, message: Message::Stream(message) } => {
                if let StreamMessage::Open(open) = &*message {
                    self.places.insert(to, (open.places.number().place, open.epoch));
                }
                self.said.push((to, *message));
            }
            Effect::Deliver(Event::Endpoint { endpoint, event, .. }) => self.told.push((endpoint, event)),
            Effect::Filter(FilterEffect::Open { stream, .. }) => {
                self.filters_opened += 1;
                return Some(Input::FilterOpened { stream, result: Ok(Placement::Pool) });
            }
            Effect::Filter(FilterEffect::Run(run)) => self.runs.push_back(run),
            Effect::Filter(FilterEffect::Abandon { run, replace_worker, .. }) => {
                self.abandoned.push((run, replace_worker));
            }
            Effect::Trace(TracePoint::BadMessage { problem, .. }) => {
                self.complaints.push(problem.to_string());
            }
            _ => {}
        }
        None
    }

    pub fn hear(&mut self, from: u16, message: StreamMessage<Ink>) {
        self.input(Input::Message { from: peer(from), message: Message::Stream(Box::new(message)) });
    }

    /// A child answers, and says which endpoints of its subtree begin with which tag.
    pub fn hear_news(&mut self, tree: &Tree, joined: &[(&[u32], u64)]) {
        let from = tree.root().node;
        let joined = joined.iter().map(|&(endpoints, tag)| (set(endpoints), tag)).collect();
        let news = StreamNews { joined, ..self.answer(from) };
        let message = Message::Stream(Box::new(StreamMessage::News(news)));
        self.input(Input::Message { from, message });
    }

    /// The news of a child that has received all that it was sent.
    pub fn answer(&self, from: NodeId) -> StreamNews {
        let (place, epoch) = self.places.get(&from).copied().unwrap_or((1, 1));
        news(place, epoch)
    }

    /// A child sends a wave with these contributors.
    pub fn hear_up(&mut self, from: u16, tag: u64, contributors: &[u32]) {
        self.hear(from, StreamMessage::Up(up(tag, contributors)));
    }

    /// A child sends an endpoint's packet with this sequence number.
    pub fn hear_alone(&mut self, from: u16, endpoint: u32, serial: u64) {
        let alone = StreamUp { lane: endpoint + 1, serial, ..up(serial, &[endpoint]) };
        self.hear(from, StreamMessage::Up(alone));
    }

    pub fn send(&mut self, endpoint: u32, tag: Option<u64>, bytes: u32) {
        let send = Command::EndpointSend { stream: STREAM, endpoint, tag, payload: packet(bytes) };
        self.input(Input::Command(send));
    }

    pub fn settle(&mut self, lane: u32, first: u64, last: u64) {
        let mut tags = TagRuns::new();
        tags.insert_run(first, last);
        let settled = StreamSettled { stream: STREAM, lanes: vec![(lane, tags)] };
        self.hear(1, StreamMessage::Settled(settled));
    }

    /// The filter ends its run.
    pub fn end_run(&mut self, run: u64, result: Result<Vec<Ink>, JobError>) {
        let result = result.map(|packets| Filtered { packets, holds_from: None });
        self.input(Input::Filtered { stream: STREAM, run, result, cost: Duration::from_micros(5) });
    }

    /// Time passes without any message.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + Duration::from_millis(50);
            self.node.handle_timeout(self.now);
            let mut inputs = Vec::new();
            while let Some(effect) = self.node.poll_effect() {
                inputs.extend(self.carry_out(effect));
            }
            inputs.into_iter().for_each(|input| self.input(input));
        }
    }

    /// The `Open` messages that it has sent and the test has not read.
    pub fn opens(&self) -> impl Iterator<Item = (NodeId, &StreamOpen<Ink>)> {
        self.said.iter().filter_map(|(to, message)| match message {
            StreamMessage::Open(open) => Some((*to, open)),
            _ => None,
        })
    }

    pub fn work(&self) -> StreamWork {
        self.node.stream_work().next().expect("it takes part in the stream")
    }

    /// The waves that it has sent up since the last call: tag, contributors and missing.
    pub fn waves(&mut self) -> Vec<(u64, PartitionSet, Vec<Missing>)> {
        let said = core::mem::take(&mut self.said);
        let mut waves = Vec::new();
        for (_, message) in said {
            if let StreamMessage::Up(up) = message
                && !up.more
            {
                waves.push((up.tag, up.contributors, up.missing));
            }
        }
        waves
    }

    /// The reports that it has sent to its parent and the test has not read.
    pub fn reports(&self) -> Vec<StreamReport> {
        let said = self.said.iter().filter(|(to, _)| *to == peer(1));
        let report = |(_, message): &(NodeId, StreamMessage<Ink>)| match message {
            StreamMessage::Report(report) => Some(*report),
            _ => None,
        };
        said.filter_map(report).collect()
    }

    /// The last news of its subtree since the last call, if it has sent any.
    pub fn news(&mut self) -> Option<StreamNews> {
        let said = core::mem::take(&mut self.said);
        said.into_iter().rev().find_map(|(_, message)| match message {
            StreamMessage::News(news) => Some(news),
            _ => None,
        })
    }
}

/// The news of a child from this place.
pub fn news(place: u64, epoch: u64) -> StreamNews {
    let (joined, away) = (Vec::new(), Vec::new());
    StreamNews {
        stream: STREAM,
        place,
        epoch,
        received: 0,
        joined,
        away,
        hears_missed: false,
        unfiltered: false,
    }
}

pub fn up(tag: u64, contributors: &[u32]) -> StreamUp<Ink> {
    StreamUp {
        stream: STREAM,
        lane: 0,
        tag,
        serial: 0,
        payload: Some(packet(10)),
        more: false,
        urgent: false,
        contributors: set(contributors),
        missing: Vec::new(),
        holds_from: None,
    }
}

pub fn missing(endpoints: &[u32], node: u16, reason: Reason) -> Missing {
    Missing { partitions: set(endpoints), node: Some(peer(node)), reason }
}

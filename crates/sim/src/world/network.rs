//! The links between nodes: delay, bandwidth, loss, duplication, reordering, cuts.
//!
//! Datagrams can be lost, duplicated and reordered. A message over a connection arrives once and in order, or
//! not at all if the connection breaks. A cut holds messages up until it ends or a node closes the
//! connection.

use super::ink::Ink;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::message::{Message, Payload};
use treefold_core::params::Params;
use treefold_core::push::message::PushMessage;
use treefold_core::random::Random;
use treefold_core::stream::message::StreamMessage;
use treefold_core::time::{Duration, Instant};

/// The behaviour of the links.
#[derive(Clone, Debug)]
pub struct Links {
    /// Time from sending a message to its arrival, without the time for its bytes.
    pub stream_delay: Duration,
    /// Time from sending a datagram to its arrival, without the time for its bytes.
    pub datagram_delay: Duration,
    /// Largest additional delay, drawn for each message and datagram. Datagrams may overtake each other.
    pub jitter: Duration,
    /// Bytes per second that a node can send; unlimited if `None`.
    pub bytes_per_s: Option<f64>,
    /// The share of datagrams lost.
    pub loss: f64,
    /// The share of datagrams that arrive twice.
    pub duplication: f64,
    /// Time until a connection attempt fails if there is no answer.
    pub connect_timeout: Duration,
}

impl Links {
    /// The DAC paper's network: 170 µs for a message, 145 µs for a datagram (DAC §5.1).
    pub const DAC: Self = Self {
        stream_delay: Duration::from_micros(170),
        datagram_delay: Duration::from_micros(145),
        jitter: Duration::ZERO,
        bytes_per_s: None,
        loss: 0.0,
        duplication: 0.0,
        connect_timeout: Duration::from_secs(1),
    };
    /// The polling paper's network: half of a TCP round trip of 516 µs, half of a UDP round trip of 290 µs
    /// (random polling §2, §3.2).
    pub const POLLING: Self = Self {
        stream_delay: Duration::from_micros(258),
        datagram_delay: Duration::from_micros(145),
        ..Self::DAC
    };
}

/// The network of one world.
#[derive(Debug)]
pub struct Network {
    links: Links,
    random: Random,
    /// Node → time at which its outgoing link is idle again.
    idle_at: BTreeMap<usize, Instant>,
    /// (from, to) → arrival of the last message.
    last_at: BTreeMap<(usize, usize), Instant>,
    /// Whether a message may take longer than a later one. From then on `last_at` is kept.
    keeps_order: bool,
    cuts: BTreeSet<(usize, usize)>,
    /// Cuts that [`Network::mend_all`] does not end, in both directions.
    lasting: BTreeSet<(usize, usize)>,
}

impl Network {
    /// Creates a network whose random numbers come from `seed`.
    pub fn new(links: Links, seed: u64) -> Self {
        Self {
            links,
            random: Random::new(seed),
            idle_at: BTreeMap::new(),
            last_at: BTreeMap::new(),
            keeps_order: false,
            cuts: BTreeSet::new(),
            lasting: BTreeSet::new(),
        }
    }

    /// Returns the current behaviour of the links.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Announces that the links will change while messages are in flight. From now on the order of messages
    /// is kept, which costs time that links without jitter and changes do not need.
    pub fn expect_changes(&mut self) {
        self.keeps_order = true;
    }

    /// Changes the behaviour of the links.
    ///
    /// # Panics
    ///
    /// Panics unless [`Network::expect_changes`] was called before, because messages in flight could be
    /// overtaken.
    pub fn change(&mut self, links: Links) {
        assert!(self.keeps_order, "call expect_changes before change");
        self.links = links;
    }

    /// Cuts the link from `from` to `to` until [`Network::mend_all`]. The other direction is a separate cut.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Cuts the link between two places in both directions until [`Network::mend_lasting`].
    pub fn cut_for_good(&mut self, a: usize, b: usize) {
        self.lasting.extend([(a, b), (b, a)]);
    }

    /// Ends all cuts except the lasting ones.
    pub fn mend_all(&mut self) {
        self.cuts.clear();
    }

    /// Ends the lasting cuts.
    pub fn mend_lasting(&mut self) {
        self.lasting.clear();
    }

    /// Returns the lasting cuts, in both directions.
    pub fn lasting(&self) -> &BTreeSet<(usize, usize)> {
        &self.lasting
    }

    /// Tells whether the link from `from` to `to` is cut.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        let is_in = |cuts: &BTreeSet<(usize, usize)>| !cuts.is_empty() && cuts.contains(&(from, to));
        is_in(&self.cuts) || is_in(&self.lasting)
    }

    /// Returns the arrival of a message of `bytes` that is sent now. It is never before that of an earlier
    /// message.
    pub fn message_arrives(&mut self, now: Instant, from: usize, to: usize, bytes: usize) -> Instant {
        let sent_at = self.leaves(now, from, bytes);
        let at = sent_at + self.links.stream_delay + self.jitter();
        self.keeps_order |= !self.links.jitter.is_zero();
        if !self.keeps_order {
            return at;
        }
        let last = self.last_at.entry((from, to)).or_insert(at);
        *last = at.max(*last);
        *last
    }

    /// Returns the arrivals of a datagram that is sent now: none, one or two.
    pub fn datagram_arrives(
        &mut self,
        now: Instant,
        from: usize,
        to: usize,
        bytes: usize,
    ) -> [Option<Instant>; 2] {
        if self.is_cut(from, to) || (self.links.loss > 0.0 && self.random.unit() < self.links.loss) {
            return [None, None];
        }
        let sent_at = self.leaves(now, from, bytes);
        let delay = self.links.datagram_delay;
        let first = sent_at + delay + self.jitter();
        let doubled = self.links.duplication > 0.0 && self.random.unit() < self.links.duplication;
        let second = doubled.then(|| sent_at + delay + self.jitter());
        [Some(first), second]
    }

    fn jitter(&mut self) -> Duration {
        let most = self.links.jitter;
        if most.is_zero() { most } else { most.mul_f64(self.random.unit()) }
    }

    /// Returns the time at which the last byte has left the sender.
    fn leaves(&mut self, now: Instant, from: usize, bytes: usize) -> Instant {
        let Some(bytes_per_s) = self.links.bytes_per_s else { return now };
        let takes = Duration::from_millis_f64(bytes as f64 / bytes_per_s * 1_000.0);
        let idle_at = self.idle_at.entry(from).or_insert(now);
        *idle_at = (*idle_at).max(now) + takes;
        *idle_at
    }
}

/// Approximate bytes of a tree's seat on the wire.
const SEAT_BYTES: usize = 24;
/// Approximate bytes of a header.
const HEADER_BYTES: usize = 64;

/// Returns the bytes of a message on a link.
pub fn message_bytes(message: &Message<Ink>) -> usize {
    let body = match message {
        Message::Call(call) => {
            call.params.as_ref().map_or(0, params_bytes) + call.tree.seats().len() * SEAT_BYTES
        }
        Message::Partial(partial) => partial.payload.as_ref().map_or(0, Payload::len),
        Message::Request(request) => params_bytes(&request.params),
        Message::Reply { outcome, .. } => outcome.value.as_ref().map_or(0, Payload::len),
        Message::Push(word) => match &**word {
            PushMessage::Push { payload, .. } => payload.len(),
            _ => 0,
        },
        Message::Cards(known) => known.cards.len() * HEADER_BYTES,
        Message::Stream(message) => stream_bytes(message),
        _ => 0,
    };
    HEADER_BYTES + body
}

fn params_bytes(params: &Params<Ink>) -> usize {
    params.common.len() + params.beside_bytes()
}

fn stream_bytes(message: &StreamMessage<Ink>) -> usize {
    let of = |payload: &Option<Ink>| payload.as_ref().map_or(0, Payload::len);
    match message {
        StreamMessage::Open(open) => {
            let seats = open.places.tree().seats().len();
            open.spec.filter_params.len() + open.spec.params.len() + seats * SEAT_BYTES
        }
        StreamMessage::News(news) => (news.joined.len() + news.away.len()) * SEAT_BYTES,
        StreamMessage::Up(up) => of(&up.payload),
        StreamMessage::Down(down) => of(&down.payload),
        StreamMessage::Run(run) => run.packets.iter().map(|(_, payload)| payload.len()).sum(),
        StreamMessage::Operator { payload, .. } => of(payload),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_micros(us)
    }

    #[test]
    fn messages_keep_their_order_and_datagrams_need_not() {
        let links = Links { jitter: Duration::from_millis(5), ..Links::DAC };
        let mut network = Network::new(links, 1);
        let arrivals: Vec<Instant> = (0..200).map(|us| network.message_arrives(at(us), 1, 2, 100)).collect();
        assert!(arrivals.is_sorted());
        let datagrams: Vec<Instant> =
            (0..200).filter_map(|us| network.datagram_arrives(at(us), 1, 2, 100)[0]).collect();
        assert!(!datagrams.is_sorted());
    }

    #[test]
    fn messages_keep_their_order_when_links_become_faster() {
        let slow = Links { stream_delay: Duration::from_millis(5), ..Links::DAC };
        let mut network = Network::new(slow, 1);
        network.expect_changes();
        assert_eq!(network.message_arrives(at(0), 1, 2, 100), at(5_000));
        network.change(Links::DAC);
        assert_eq!(network.message_arrives(at(1_000), 1, 2, 100), at(5_000), "not before the first message");
        assert_eq!(network.message_arrives(at(1_000), 2, 1, 100), at(1_170), "no message in this direction");
        assert_eq!(network.message_arrives(at(6_000), 1, 2, 100), at(6_170));
    }

    #[test]
    fn a_narrow_link_sends_messages_one_after_the_other() {
        let mut network = Network::new(Links { bytes_per_s: Some(1e6), ..Links::DAC }, 1);
        assert_eq!(network.message_arrives(at(0), 1, 2, 1_000), at(1_170));
        assert_eq!(network.message_arrives(at(0), 1, 3, 1_000), at(2_170));
        assert_eq!(network.message_arrives(at(0), 4, 3, 1_000), at(1_170), "each node has its own link");
    }

    #[test]
    fn loss_and_duplication_match_their_shares_and_cuts_are_one_way() {
        let mut network = Network::new(Links { loss: 0.2, duplication: 0.1, ..Links::DAC }, 1);
        let drawn: Vec<[Option<Instant>; 2]> =
            (0..10_000).map(|us| network.datagram_arrives(at(us), 1, 2, 100)).collect();
        let share = |which: usize| drawn.iter().filter(|copies| copies[which].is_some()).count();
        assert!((7_800..8_200).contains(&share(0)), "{}", share(0));
        assert!((700..900).contains(&share(1)), "{}", share(1));
        network.cut(1, 2);
        assert!(network.is_cut(1, 2) && !network.is_cut(2, 1));
        assert_eq!(network.datagram_arrives(at(0), 1, 2, 100), [None, None]);
        network.mend_all();
        assert!(!network.is_cut(1, 2));
    }
}

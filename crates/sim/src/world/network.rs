//! The links between nodes: delay, bandwidth, loss, duplication, reordering, cuts.
//!
//! Datagrams are lost, doubled and overtaken. What goes over a connection arrives once and in order or, when the
//! connection breaks, not at all; a cut holds it up until it heals or somebody gives the connection up.

use super::ink::Ink;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::message::{Message, Payload};
use treefold_core::push::message::PushMessage;
use treefold_core::random::Random;
use treefold_core::stream::message::StreamMessage;
use treefold_core::time::{Duration, Instant};

/// How the links behave.
#[derive(Clone, Debug)]
pub struct Links {
    /// From a message's sending to its arrival, beside the time its bytes take.
    pub stream_delay: Duration,
    /// The same for datagrams.
    pub datagram_delay: Duration,
    /// Up to so much more, drawn for each message and datagram. Datagrams may overtake each other.
    pub jitter: Duration,
    /// What a node can send, in bytes per second; `None` for any amount.
    pub bytes_per_s: Option<f64>,
    /// The share of datagrams lost.
    pub loss: f64,
    /// The share of datagrams that arrive twice.
    pub duplication: f64,
    /// How long a connection attempt into the void takes to fail.
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
    /// Node → when its link out is idle again.
    idle_at: BTreeMap<usize, Instant>,
    /// (from, to) → when the last message arrives.
    last_at: BTreeMap<(usize, usize), Instant>,
    /// True once a message may take longer than one sent after it: from then on `last_at` is kept.
    keeps_order: bool,
    cuts: BTreeSet<(usize, usize)>,
    /// Cuts that [`Network::mend_all`] leaves; both ways are here.
    lasting: BTreeSet<(usize, usize)>,
}

impl Network {
    /// A network whose dice `seed` sets.
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

    /// How the links behave now.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The links are going to change while messages are under way. Order is then kept from the first message on,
    /// which takes time that links without jitter that stay as they are need not spend.
    pub fn expect_changes(&mut self) {
        self.keeps_order = true;
    }

    /// From now on the links behave so.
    ///
    /// # Panics
    ///
    /// When that was not to be expected ([`Network::expect_changes`]): what is under way could be overtaken.
    pub fn change(&mut self, links: Links) {
        assert!(self.keeps_order, "links that change are expected to");
        self.links = links;
    }

    /// Nothing gets from `from` to `to` until [`Network::mend_all`]; the other way is another cut.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Nothing gets from one to the other, nor back, until [`Network::mend_lasting`].
    pub fn cut_for_good(&mut self, a: usize, b: usize) {
        self.lasting.extend([(a, b), (b, a)]);
    }

    /// Every link is whole again, but for cuts that last.
    pub fn mend_all(&mut self) {
        self.cuts.clear();
    }

    /// Links that were cut for good are whole again.
    pub fn mend_lasting(&mut self) {
        self.lasting.clear();
    }

    /// The cuts that last, both ways.
    pub fn lasting(&self) -> &BTreeSet<(usize, usize)> {
        &self.lasting
    }

    /// True when nothing gets from `from` to `to`.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        let is_in = |cuts: &BTreeSet<(usize, usize)>| !cuts.is_empty() && cuts.contains(&(from, to));
        is_in(&self.cuts) || is_in(&self.lasting)
    }

    /// When a message of `bytes` sent now arrives; never before one sent earlier.
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

    /// When a datagram sent now arrives: never, once or twice.
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

    /// When the last byte has left the sender.
    fn leaves(&mut self, now: Instant, from: usize, bytes: usize) -> Instant {
        let Some(bytes_per_s) = self.links.bytes_per_s else { return now };
        let takes = Duration::from_millis_f64(bytes as f64 / bytes_per_s * 1_000.0);
        let idle_at = self.idle_at.entry(from).or_insert(now);
        *idle_at = (*idle_at).max(now) + takes;
        *idle_at
    }
}

/// Bytes of a seat of a tree on the wire, roughly.
const SEAT_BYTES: usize = 24;
/// Bytes of a header, roughly.
const HEADER_BYTES: usize = 64;

/// How much of a link a message takes, in bytes.
pub fn message_bytes(message: &Message<Ink>) -> usize {
    let body = match message {
        Message::Call(call) => {
            call.params.as_ref().map_or(0, Payload::len) + call.tree.seats().len() * SEAT_BYTES
        }
        Message::Partial(partial) => partial.payload.as_ref().map_or(0, Payload::len),
        Message::Request(request) => request.params.len(),
        Message::Reply { outcome, .. } => outcome.value.as_ref().map_or(0, Payload::len),
        Message::Push(word) => match &**word {
            PushMessage::Push { payload, .. } => payload.len(),
            _ => 0,
        },
        Message::Cards(cards) => cards.len() * HEADER_BYTES,
        Message::Stream(message) => stream_bytes(message),
        _ => 0,
    };
    HEADER_BYTES + body
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
        assert_eq!(network.message_arrives(at(1_000), 1, 2, 100), at(5_000), "not before the first");
        assert_eq!(network.message_arrives(at(1_000), 2, 1, 100), at(1_170), "nothing is under way");
        assert_eq!(network.message_arrives(at(6_000), 1, 2, 100), at(6_170));
    }

    #[test]
    fn a_narrow_link_sends_one_after_the_other() {
        let mut network = Network::new(Links { bytes_per_s: Some(1e6), ..Links::DAC }, 1);
        assert_eq!(network.message_arrives(at(0), 1, 2, 1_000), at(1_170));
        assert_eq!(network.message_arrives(at(0), 1, 3, 1_000), at(2_170));
        assert_eq!(network.message_arrives(at(0), 4, 3, 1_000), at(1_170), "each node has its own link");
    }

    #[test]
    fn loss_and_duplication_have_their_shares_and_a_cut_goes_one_way() {
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

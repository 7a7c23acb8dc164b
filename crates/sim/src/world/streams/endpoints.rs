//! The endpoints: the packets that they send and take, each in a process of its node.

use super::super::ink::{Ink, mixed};
use super::super::place::{Life, place_of};
use super::super::{Happening, Watch, World};
use super::{SeatKey, Tags};
use std::collections::VecDeque;
use treefold_core::id::NodeId;
use treefold_core::input::{Command, Input};
use treefold_core::stream::spec::EndpointEvent;
use treefold_core::stream::{PACKET_BYTES, StreamId};
use treefold_core::time::{Duration, Instant};

/// An endpoint's state in a stream, as a driver keeps it.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Index of its stream's play.
    pub play: usize,
    /// Most unsettled bytes on their way up.
    pub window_bytes: u64,
    /// Unsettled bytes on their way up.
    pub in_flight_bytes: u64,
    /// Number of times that it was opened here before.
    pub life: u32,
    /// Whether it is closed.
    pub is_over: bool,
    /// The packets that it has sent in this life.
    pub sent: Vec<Sent>,
    /// Number of packets that it sent here in earlier lives.
    pub sent_before: u64,
    /// The packets that it got in this life, by sequence number.
    pub taken: Vec<u64>,
    /// Packets that wait for room in the window: tag, content and size.
    waiting: VecDeque<(u64, u64, u32)>,
    /// Whether its code has left the stream. The node may not know it yet.
    has_left: bool,
    /// The packets that it was told it missed: the first and the last of each row.
    pub missed: Vec<(u64, u64)>,
    /// The time at which it has taken all packets that it got.
    pub(super) busy_until: Instant,
}

/// A packet that an endpoint sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its sequence number at its endpoint, from 1, over all lives and places.
    pub number: u64,
    /// Its tag, unless the node counted it.
    pub tag: Option<u64>,
    /// The time at which it was sent.
    pub at: Instant,
}

impl Seat {
    /// Returns the number of packets that it has sent here.
    pub fn sent_count(&self) -> u64 {
        self.sent_before + self.sent.len() as u64
    }

    /// Returns the last packet that it got or was told it missed.
    fn last_seen(&self) -> u64 {
        let missed = self.missed.last().map_or(0, |&(_, last)| last);
        missed.max(self.taken.last().copied().unwrap_or(0))
    }

    /// Tells whether it may send.
    pub fn has_room(&self) -> bool {
        !self.is_over && self.in_flight_bytes < self.window_bytes
    }
}

impl World {
    /// Returns every endpoint that was ever opened.
    pub fn seats(&self) -> impl Iterator<Item = (&SeatKey, &Seat)> {
        self.streams.seats.iter()
    }

    /// Returns an endpoint.
    pub fn seat(&self, key: &SeatKey) -> Option<&Seat> {
        self.streams.seats.get(key)
    }

    pub(in crate::world) fn tell_endpoint(
        &mut self,
        at: usize,
        stream: StreamId,
        endpoint: u32,
        event: EndpointEvent<Ink>,
        inline: &mut Vec<Input<Ink>>,
    ) {
        let node = self.places[at].id;
        let key = (node, stream, endpoint);
        let is_opening = matches!(event, EndpointEvent::Opened { .. });
        if self.streams.seats.get(&key).is_some_and(|seat| seat.has_left && !is_opening) {
            return;
        }
        let told = self.feed.is_some().then(|| event.clone());
        match event {
            EndpointEvent::Opened { spec, window_bytes, .. } => {
                let play = self.streams.play_of(&spec.params);
                self.open_seat(key, play, window_bytes);
            }
            EndpointEvent::Packet { sequence, tag, .. } => self.take_packet(key, sequence, tag, inline),
            EndpointEvent::Packets(run) => {
                for (sequence, tag, _) in run.iter() {
                    self.take_packet(key, sequence, tag, inline);
                }
            }
            EndpointEvent::Missed { first, last } => self.miss_packets(key, first, last),
            EndpointEvent::Settled { bytes } => {
                let seat = self.open_seat_of(&key);
                assert!(
                    seat.in_flight_bytes >= bytes,
                    "{key:?}: {bytes} bytes were settled, more than are in flight"
                );
                seat.in_flight_bytes -= bytes;
                while let Some(seat) = self.streams.seats.get_mut(&key).filter(|seat| seat.has_room())
                    && let Some((tag, content, bytes)) = seat.waiting.pop_front()
                {
                    inline.push(self.content_of(key, Some(tag), content, bytes));
                }
            }
            EndpointEvent::Closed(_) => self.open_seat_of(&key).is_over = true,
        }
        if let Some(told) = told {
            let play = self.streams.seats.get(&key).map_or(0, |seat| seat.play);
            self.tell_mirror(key, play, &told, inline);
        }
    }

    /// Makes an endpoint's code leave its stream. Returns false if the endpoint is not open.
    pub(in crate::world) fn leave_seat(&mut self, key: &SeatKey) -> bool {
        let Some(seat) = self.streams.seats.get_mut(key).filter(|seat| !seat.is_over) else { return false };
        (seat.is_over, seat.has_left) = (true, true);
        true
    }

    /// Returns the packet by which an endpoint sends a content; `None` if it is not open or its window is full. In the
    /// latter case it is sent later.
    pub(in crate::world) fn send_content(
        &mut self,
        key: SeatKey,
        tag: u64,
        content: u64,
        bytes: u32,
    ) -> Option<Input<Ink>> {
        let seat = self.streams.seats.get_mut(&key).filter(|seat| !seat.is_over)?;
        if seat.has_room() {
            return Some(self.content_of(key, Some(tag), content, bytes));
        }
        seat.waiting.push_back((tag, content, bytes));
        None
    }

    fn open_seat_of(&mut self, key: &SeatKey) -> &mut Seat {
        let seat = self.streams.seats.get_mut(key).filter(|seat| !seat.is_over);
        seat.unwrap_or_else(|| panic!("{key:?}: got an event, but is not open"))
    }

    fn open_seat(&mut self, key: SeatKey, play: usize, window_bytes: u64) {
        let former = self.streams.seats.get(&key);
        assert!(former.is_none_or(|seat| seat.is_over), "{key:?}: opened again before it was closed");
        let (life, sent_before) = former.map_or((0, 0), |seat| (seat.life + 1, seat.sent_count()));
        let seat = Seat {
            play,
            window_bytes,
            in_flight_bytes: 0,
            life,
            is_over: false,
            sent: Vec::new(),
            sent_before,
            taken: Vec::new(),
            missed: Vec::new(),
            busy_until: self.now,
            waiting: VecDeque::new(),
            has_left: false,
        };
        self.streams.seats.insert(key, seat);
        if let Some(every) = self.streams.plays[play].habit.every {
            // Each endpoint has its own phase.
            let phase = mixed(u64::from(key.2) ^ self.setting.seed) as f64 / u64::MAX as f64;
            self.agenda.plan(self.now + every.mul_f64(phase), Happening::Turn { seat: key, life });
        }
    }

    fn miss_packets(&mut self, key: SeatKey, first: u64, last: u64) {
        let seat = self.open_seat_of(&key);
        let seen = seat.last_seen();
        assert!(seen < first && first <= last, "{key:?}: missed {first} to {last} after packet {seen}");
        seat.missed.push((first, last));
    }

    fn take_packet(&mut self, key: SeatKey, sequence: u64, tag: u64, inline: &mut Vec<Input<Ink>>) {
        let (to, stream, endpoint) = key;
        let seat = self.open_seat_of(&key);
        let last = seat.last_seen();
        assert!(last < sequence, "{key:?}: got packet {sequence} after packet {last}");
        seat.taken.push(sequence);
        let (play, has_room) = (seat.play, seat.has_room());
        let took = Input::Command(Command::EndpointTook { stream, endpoint, sequence });
        let (mut takes_for, slow, answers) = {
            let play = &self.streams.plays[play];
            (play.takes_for, play.slow, play.habit.answers)
        };
        if let Some((_, each)) = slow.filter(|&(slow, _)| slow == endpoint) {
            let now = self.now;
            let seat = self.open_seat_of(&key);
            seat.busy_until = seat.busy_until.max(now) + each;
            takes_for = now.until(seat.busy_until);
        }
        if takes_for.is_zero() {
            inline.push(took);
        } else {
            self.agenda.plan(self.now + takes_for, Happening::Input { to, input: took });
        }
        if answers && has_room {
            inline.push(self.packet_of(key, Some(tag)));
        } else if answers {
            let bytes = self.streams.plays[play].packet_bytes;
            self.open_seat_of(&key).waiting.push_back((tag, 0, bytes));
        }
    }

    /// Returns the next packet of an open endpoint and records it as sent.
    fn packet_of(&mut self, key: SeatKey, tag: Option<u64>) -> Input<Ink> {
        let play = self.open_seat_of(&key).play;
        self.content_of(key, tag, 0, self.streams.plays[play].packet_bytes)
    }

    /// Returns the packet of an open endpoint that stands for a content, and records it as sent.
    fn content_of(&mut self, key: SeatKey, tag: Option<u64>, content: u64, bytes: u32) -> Input<Ink> {
        let (now, (_, stream, endpoint)) = (self.now, key);
        let number = self.streams.packets.entry((stream, endpoint)).or_default();
        *number += 1;
        let number = *number;
        let seat = self.open_seat_of(&key);
        seat.sent.push(Sent { number, tag, at: now });
        seat.in_flight_bytes += u64::from(bytes) + PACKET_BYTES as u64;
        let payload = Ink { content, ..Ink::packet(stream, endpoint, tag, number, bytes) };
        Input::Command(Command::EndpointSend { stream, endpoint, tag, payload })
    }

    /// Sends a packet from an endpoint now. Returns false if it is not open, has no room, or its node does
    /// not run.
    pub fn send_from(&mut self, key: SeatKey, tag: Option<u64>, watch: &mut dyn Watch) -> bool {
        let at = place_of(key.0).0;
        let may = self.is_running(key.0) && self.streams.seats.get(&key).is_some_and(Seat::has_room);
        if may {
            let input = self.packet_of(key, tag);
            self.feed(at, input, watch);
        }
        may
    }

    fn is_running(&self, node: NodeId) -> bool {
        self.is_there(node) && self.places[place_of(node).0].life == Life::Running
    }

    /// Takes an endpoint's turn to send unasked. The turn is skipped while its node does not run or its
    /// window is full.
    pub(in crate::world) fn take_turn(&mut self, key: SeatKey, life: u32, watch: &mut dyn Watch) {
        let Some(seat) = self.streams.seats.get(&key) else { return };
        let (play, sent) = (seat.play, seat.sent_count());
        let habit = self.streams.plays[play].habit;
        let Some(every) = habit.every else { return };
        let is_through = sent >= habit.packets_max || self.streams.quiet.contains(&play);
        if !self.is_there(key.0) || seat.is_over || seat.life != life || is_through {
            return;
        }
        self.note(11, u64::from(key.2));
        let bucket = self.now.as_nanos() / every.as_nanos().max(1) + 1;
        let tag = (habit.tags == Tags::Buckets).then_some(bucket);
        self.agenda.plan(self.now + every.max(Duration::from_micros(1)), Happening::Turn { seat: key, life });
        self.send_from(key, tag, watch);
    }
}

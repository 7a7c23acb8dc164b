//! The streams of a play: opens them, sends packets down, closes them. After healing all endpoints must be
//! back, no packet may be lost, and closed streams must leave nothing behind.

use super::{Found, LOOK_EVERY, Stage};
use crate::explore::invariant::streams::Heard;
use crate::explore::invariant::{
    stream_answered_once, stream_back, stream_down, stream_leaves_nothing, stream_nothing_lost,
    stream_unheld, stream_windows,
};
use crate::explore::streaming::{Mode, RUN_PACKETS};
use crate::world::place::Life;
use crate::world::streams::SeatKey;
use std::collections::BTreeSet;
use treefold_core::id::RequestId;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{PACKET_BYTES, Synchronisation};
use treefold_core::time::{Duration, Instant};

/// Longest time until all packets are settled after endpoints stop sending. Slow filters and windows of one
/// packet let only a few packets per second pass. The time of waves' time-outs is added (`climbs_left_us`).
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
/// Time after the orphans' patience within which a closed stream must be gone from all nodes.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);

/// A stream that was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    front: usize,
    request: RequestId,
    /// The number of its play in the world.
    play: usize,
    /// Number of packets that its user has sent down. Their tags are 1 to this number.
    sent: u64,
    /// Since when there has been no room for a packet down.
    held_since: Option<Instant>,
}

impl Stage<'_> {
    pub(super) fn open(&mut self, number: usize) {
        let planned = &self.scenario.streams[number];
        let front = self.place(planned.front);
        if self.life(front) == Life::Gone {
            return;
        }
        let plan = planned.plan(self.scenario);
        let play = self.world.plays();
        let request = self.world.open_stream(front, &plan, &mut self.watch);
        self.opened.insert(number, Opened { front, request, play, sent: 0, held_since: None });
    }

    pub(super) fn send_down(&mut self, number: usize) {
        let Some(&opened) = self.opened.get(&number) else { return };
        if self.life(opened.front) != Life::Running {
            return;
        }
        let tag = opened.sent + 1;
        // Every fourth time several packets go together.
        let lag = self.scenario.streams[number].lag;
        let together = lag.map_or(if tag.is_multiple_of(4) { RUN_PACKETS } else { 1 }, |lag| lag.burst);
        let tags = tag..tag + together;
        let sent = self.world.send_run_down(opened.front, opened.request, tags, &mut self.watch);
        let now = self.world.now();
        let Some(opened) = self.opened.get_mut(&number) else { return };
        opened.sent += sent;
        opened.held_since = if sent == 0 { opened.held_since.or(Some(now)) } else { None };
        let held_for = opened.held_since.map(|since| since.until(now));
        if lag.is_some()
            && self.faults.is_empty()
            && let Some(heard) = self.heard(number)
        {
            let (front, stream) = (self.opened[&number].front, heard.stream);
            let says = stream_unheld::sent(heard, held_for.unwrap_or(Duration::ZERO));
            self.watch.inspection.hold_stream("stream_unheld", now, front, stream, says);
        }
    }

    pub(super) fn close(&mut self, number: usize) {
        if let Some(opened) = self.opened.get(&number) {
            self.world.close_stream(opened.front, opened.request, &mut self.watch);
        }
    }

    /// Returns the record of a stream's front-end, unless the stream is over.
    fn heard(&self, number: usize) -> Option<&Heard> {
        let opened = self.opened.get(&number)?;
        let heard = self.watch.inspection.streams().heard(&(opened.front, opened.request))?;
        (!heard.is_over && self.life(opened.front) == Life::Running).then_some(heard)
    }

    /// Checks that all endpoints are back, first over the links that are not cut for good; then that nothing
    /// is lost, and that closed streams leave nothing.
    pub(super) fn recover_streams(&mut self) -> Result<(), Found> {
        let has_lasting_cuts = !self.world.network().lasting().is_empty();
        if !self.opened.is_empty() || self.scenario.feed.is_some() {
            self.restart_hung();
        }
        if !self.opened.is_empty() {
            for opened in self.opened.values().copied().collect::<Vec<_>>() {
                let at_once = Some(Duration::ZERO);
                self.world.pace_reader(opened.front, opened.request, at_once, &mut self.watch);
                self.world.hurry_up(opened.play);
            }
            if has_lasting_cuts {
                self.all_are_back()?;
            }
        }
        self.world.mend_lasting();
        self.rejoin_lonely_observers();
        self.recover_feed()?;
        if self.opened.is_empty() && self.scenario.feed.is_none() {
            return Ok(());
        }
        if !self.opened.is_empty() {
            self.all_are_back()?;
            self.all_is_settled()?;
        }
        for number in 0..self.scenario.streams.len() {
            self.close(number);
        }
        self.nothing_is_left()
    }

    /// Restarts nodes whose processors never return, as their operators would.
    fn restart_hung(&mut self) {
        let is_hung = |at: &usize| self.life(*at) == Life::Running && self.world.place(*at).hung() > 0;
        let hung: Vec<usize> = (0..self.world.places()).filter(is_hung).collect();
        for &at in &hung {
            self.end_process(at);
            self.restart(at);
        }
        if !hung.is_empty() {
            // A client may have lost all members that it knew. Its library connects to others.
            self.running(true).into_iter().for_each(|at| self.join(at));
        }
    }

    /// Returns the endpoints on live nodes.
    ///
    /// An endpoint is left out if a node that holds it has a link that is cut for good, even if another node
    /// holds it as well, because the front-end may seat it behind the cut.
    pub(super) fn living_endpoints(&mut self) -> PartitionSet {
        let lasting: BTreeSet<usize> = self.world.network().lasting().iter().map(|&(at, _)| at).collect();
        let (mut living, mut behind_cuts) = (PartitionSet::new(), PartitionSet::new());
        for at in self.running(false) {
            let held = &self.world.place(at).spec().partitions;
            if lasting.contains(&at) { behind_cuts.union_with(held) } else { living.union_with(held) }
        }
        living.difference(&behind_cuts)
    }

    fn all_are_back(&mut self) -> Result<(), Found> {
        let by = self.world.now() + stream_back::WITHIN + self.work_in_hand() + self.world.packets_in_hand();
        self.run_speaking(stream_back::RECOVERED_AFTER)?;
        let living = self.living_endpoints();
        self.watch.inspection.forget_recent_waves(&living);
        let lasting: BTreeSet<usize> = self.world.network().lasting().iter().map(|&(at, _)| at).collect();
        loop {
            self.run_speaking(LOOK_EVERY)?;
            self.rejoin_lonely_observers();
            let late = (0..self.scenario.streams.len()).find_map(|number| {
                let heard = self.heard(number)?;
                let front = self.opened[&number].front;
                if lasting.contains(&front) || self.leaving.contains(&front) {
                    return None;
                }
                let planned = &self.scenario.streams[number];
                let only_attend =
                    planned.outgrows_window(self.scenario) || planned.outlasts_time_out(self.scenario);
                let says = stream_back::all_back(heard, &living, only_attend);
                says.is_err().then_some((front, heard.stream, says))
            });
            let Some((front, stream, says)) = late else { return self.look() };
            if self.scenario.refuses_streams() {
                return self.look();
            }
            if self.world.now() >= by {
                self.watch.inspection.hold_stream("stream_back", self.world.now(), front, stream, says);
            }
            self.look()?;
        }
    }

    /// Runs the world, while users of streams whose endpoints answer send packets down.
    fn run_speaking(&mut self, time: Duration) -> Result<(), Found> {
        let until = self.world.now() + time;
        while self.world.now() < until {
            for number in 0..self.scenario.streams.len() {
                if self.scenario.streams[number].every_us.is_none() {
                    self.send_down(number);
                }
            }
            self.rejoin_lonely_observers();
            let next = (self.world.now() + LOOK_EVERY).min(until);
            self.run_until(next)?;
            let says = stream_windows::of_seats(&self.world);
            self.watch.inspection.hold("stream_windows", self.world.now(), None, None, says);
        }
        self.look()
    }

    /// Stops the sending of new packets, waits until packets in flight have arrived, and checks the streams.
    fn all_is_settled(&mut self) -> Result<(), Found> {
        for opened in self.opened.values() {
            self.world.quiet_down(opened.play);
        }
        let climbs_us = (0..self.scenario.streams.len()).map(|number| self.climbs_left_us(number)).max();
        let climbs = Duration::from_micros(climbs_us.unwrap_or(0));
        let by = self.world.now() + SETTLED_WITHIN + climbs + self.work_in_hand();
        loop {
            self.run_until(self.world.now() + LOOK_EVERY)?;
            let is_settled = (0..self.scenario.streams.len()).all(|number| self.is_settled(number));
            if is_settled || self.world.now() >= by || self.scenario.refuses_streams() {
                break;
            }
        }
        if self.scenario.refuses_streams() {
            return self.look();
        }
        for number in 0..self.scenario.streams.len() {
            let Some(heard) = self.heard(number) else { continue };
            let opened = self.opened[&number];
            let key = (opened.front, opened.request);
            let planned = &self.scenario.streams[number];
            let (stream, now) = (heard.stream, self.world.now());
            let streams = self.watch.inspection.streams();
            let mut says = Vec::new();
            let waits = heard.synchronisation == Synchronisation::WaitForAll;
            if !(waits && planned.filters_down && streams.has_lost_down) {
                says.push(("stream_nothing_lost", stream_nothing_lost::at_rest(&self.world, streams, &key)));
            }
            if planned.every_us.is_none() {
                says.push(("stream_answered_once", stream_answered_once::at_rest(heard)));
            }
            if !planned.filters_down {
                let has_lag = planned.lag.is_some();
                let down = stream_down::at_rest(&self.world, streams, &key, opened.sent, has_lag);
                says.push(("stream_down", down));
            }
            for (invariant, says) in says {
                self.watch.inspection.hold_stream(invariant, now, opened.front, stream, says);
            }
        }
        self.look()
    }

    /// Returns the longest time in µs in which the waves of a stream climb that are on their way.
    ///
    /// Waves climb side by side if windows hold them all. If windows are too small, a node sends a wave when an earlier
    /// one is settled. Then the waves may climb one after the other, and each may time out at every level.
    fn climbs_left_us(&self, number: usize) -> u64 {
        let planned = &self.scenario.streams[number];
        let climb_us = planned.climbs_for_us(self.scenario);
        if climb_us == 0 || !planned.outgrows_window(self.scenario) {
            return climb_us;
        }
        let Some(heard) = self.heard(number) else { return climb_us };
        let seats = self.open_seats(number).into_iter().filter_map(|key| self.world.seat(&key));
        let waves = if planned.names_tags() {
            let tags = seats.flat_map(|seat| seat.sent.iter().filter_map(|sent| sent.tag));
            tags.filter(|tag| !heard.waves.contains_key(tag)).collect::<BTreeSet<u64>>().len() as u64
        } else {
            // Nodes count the tags, so that each packet may have a wave of its own.
            let packet_bytes = u64::from(planned.packet_bytes) + PACKET_BYTES as u64;
            seats.map(|seat| seat.in_flight_bytes.div_ceil(packet_bytes)).sum()
        };
        climb_us.saturating_mul(waves.max(1))
    }

    /// Returns the open endpoints of a stream on live nodes.
    fn open_seats(&self, number: usize) -> Vec<SeatKey> {
        let Some(stream) = self.heard(number).and_then(|heard| heard.stream) else { return Vec::new() };
        let is_open =
            |key: &SeatKey, is_over: bool| key.1 == stream && !is_over && self.world.is_there(key.0);
        self.world.seats().filter(|(key, seat)| is_open(key, seat.is_over)).map(|(key, _)| *key).collect()
    }

    /// Tells whether no packet of a stream is in flight. If nodes count tags and waves wait for all, the last
    /// waves may stay incomplete for ever, so such a stream counts as settled.
    fn is_settled(&self, number: usize) -> bool {
        let planned = &self.scenario.streams[number];
        let front = self
            .opened
            .get(&number)
            .and_then(|opened| self.world.front(self.world.place(opened.front).id(), opened.request));
        if front.is_some_and(|front| !front.is_over && front.down_bytes > 0) {
            return false;
        }
        if planned.mode == Mode::WaitForAll && !planned.names_tags() {
            return true;
        }
        self.open_seats(number)
            .iter()
            .all(|key| self.world.seat(key).is_none_or(|seat| seat.in_flight_bytes == 0))
    }

    /// Checks that closed streams leave nothing anywhere.
    fn nothing_is_left(&mut self) -> Result<(), Found> {
        let patience = self.scenario.habits().0.orphan_patience;
        let by = self.world.now() + patience.into() + LEAVES_WITHIN + self.work_in_hand();
        loop {
            self.run_until(self.world.now() + LOOK_EVERY)?;
            let says = stream_leaves_nothing::at_rest(&self.world);
            if says.is_ok() {
                return self.look();
            }
            if self.world.now() >= by {
                self.watch.inspection.hold("stream_leaves_nothing", self.world.now(), None, None, says);
            }
            self.look()?;
        }
    }
}

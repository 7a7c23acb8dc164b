//! What can go wrong at a place or between two: crash, restart, stall, slowness, a clock that jumps, a cut.

use super::ink::Ink;
use super::place::{Failing, Life, name_of};
use super::{Happening, Watch, World};
use treefold_core::input::{Command, Input};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};

impl World {
    /// kill -9: the process is gone, and its peers' connections break.
    pub fn kill(&mut self, at: usize) {
        if self.places[at].life == Life::Gone {
            return;
        }
        self.places[at].life = Life::Gone;
        self.places[at].backlog.clear();
        let peers: Vec<usize> = (self.connections.keys())
            .filter_map(|&(a, b)| if a == at { Some(b) } else { (b == at).then_some(a) })
            .collect();
        peers.into_iter().for_each(|peer| self.break_connection(at, peer, None));
        self.unnoticed.retain(|&(end, peer)| end != at && peer != at);
        self.lose_workers_at(at);
        self.lose_streams_at(at);
    }

    /// Another process begins at a place whose last one is gone. It knows nobody until it joins.
    pub fn restart(&mut self, at: usize) {
        assert_eq!(self.places[at].life, Life::Gone, "only who is gone is started again");
        let lives = self.places[at].lives + 1;
        let id = name_of(at, lives, self.places[at].spec.is_client);
        let node = self.fresh_node(&self.places[at].spec.clone(), id);
        let place = &mut self.places[at];
        place.processors = place.spec.idle_processors();
        place.node = node;
        (place.id, place.lives, place.life) = (id, lives, Life::Running);
        (place.armed, place.ahead) = (None, Duration::ZERO);
        (place.hanging, place.hung, place.failing) = (PartitionSet::new(), 0, Failing::default());
        (place.fails_after, place.locals_take_more) = (None, Duration::ZERO);
        self.arm(at);
    }

    /// The node at `at` calls on those at `seeds`.
    pub fn join(&mut self, at: usize, seeds: &[usize], watch: &mut dyn Watch) {
        let addrs = seeds.iter().map(|&seed| super::place::addr_of(seed)).collect();
        self.feed(at, Input::Command(Command::Join(addrs)), watch);
    }

    /// The node at `at` says goodbye.
    pub fn leave(&mut self, at: usize, watch: &mut dyn Watch) {
        self.feed(at, Input::Command(Command::Leave), watch);
    }

    /// kill -STOP.
    pub fn stop(&mut self, at: usize) {
        if self.places[at].life == Life::Running {
            self.places[at].life = Life::Stopped;
        }
    }

    /// kill -CONT: everything that has piled up comes in at once.
    pub fn resume(&mut self, at: usize, watch: &mut dyn Watch) {
        if self.places[at].life != Life::Stopped {
            return;
        }
        self.places[at].life = Life::Running;
        let backlog: Vec<Input<Ink>> = std::mem::take(&mut self.places[at].backlog);
        backlog.into_iter().for_each(|input| self.feed(at, input, watch));
        self.arm(at);
    }

    /// What starts at `at` from now on takes `times` as long as usual.
    pub fn slow_down(&mut self, at: usize, times: f64) {
        let speed = self.places[at].spec.speed;
        self.places[at].processors.slow_down(times / speed);
    }

    /// What starts at `at` from now on takes `more` time if it is a local.
    pub fn delay_locals(&mut self, at: usize, more: Duration) {
        self.places[at].locals_take_more = more;
    }

    /// The locals of `partitions` never return at `at`, until there are none.
    pub fn hang(&mut self, at: usize, partitions: PartitionSet) {
        self.places[at].hanging = partitions;
    }

    /// What fails at `at` from now on.
    pub fn fail(&mut self, at: usize, failing: Failing) {
        self.places[at].failing = failing;
    }

    /// Every local at `at` returns an error after so much work, from now on; `None` ends it. A node that fails fast
    /// looks idle.
    pub fn fail_fast(&mut self, at: usize, after: Option<Duration>) {
        self.places[at].fails_after = after;
    }

    /// The clock of `at` jumps ahead, as after a machine's sleep. It never goes back: nodes read monotonic clocks.
    pub fn jump_clock(&mut self, at: usize, by: Duration) {
        self.places[at].ahead += by;
        self.places[at].armed = None;
        self.arm(at);
    }

    /// The connection between two places breaks, and what is on its way is lost.
    pub fn break_link(&mut self, a: usize, b: usize) {
        self.break_connection(a, b, None);
    }

    /// The connection between two places breaks. What is on its way is lost, and so is what each end sends until it
    /// notices, after a time of its own.
    pub fn sever(&mut self, a: usize, b: usize, notice: [Duration; 2]) {
        if self.connections.remove(&super::carry::pair(a, b)).is_none() {
            return;
        }
        for ((end, peer), after) in [(a, b), (b, a)].into_iter().zip(notice) {
            self.held_up.remove(&(end, peer));
            let of_peer = self.places[peer].id;
            let is_lost =
                |input: &Input<Ink>| matches!(input, Input::Message { from, .. } if *from == of_peer);
            self.places[end].backlog.retain(|input| !is_lost(input));
            self.unnoticed.insert((end, peer));
            self.agenda.plan(self.now + after, Happening::Notice { end, peer });
        }
    }

    /// One end notices that its connection has broken.
    pub(super) fn notice(&mut self, end: usize, peer: usize, watch: &mut dyn Watch) {
        if self.unnoticed.remove(&(end, peer)) {
            let peer = self.places[peer].id;
            self.feed(end, Input::Lost { peer }, watch);
        }
    }

    /// Nothing gets from one to the other, nor back, until [`World::mend_lasting`].
    pub fn cut_for_good(&mut self, a: usize, b: usize) {
        self.network.cut_for_good(a, b);
    }

    /// Nothing gets from `from` to `to` any more.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.network.cut(from, to);
    }

    /// Every cut is mended but those that last, and what waited goes on its way.
    pub fn mend(&mut self) {
        self.network.mend_all();
        self.let_through();
    }

    /// The cuts that last are mended, too.
    pub fn mend_lasting(&mut self) {
        self.network.mend_lasting();
        self.let_through();
    }

    fn let_through(&mut self) {
        let held_up = std::mem::take(&mut self.held_up);
        let now: Instant = self.now;
        for happening in held_up.into_values().flatten() {
            self.agenda.plan(now, happening);
        }
    }
}

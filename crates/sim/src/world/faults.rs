//! The faults of a place or between two places: crash, restart, stall, slowness, clock jumps, cuts.

use super::ink::Ink;
use super::place::{Failing, Life, name_of};
use super::{Happening, Watch, World};
use treefold_core::input::{Command, Input};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;

impl World {
    /// Kills the process (kill -9). Its peers' connections break.
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

    /// Starts a new process at a place whose process is gone. It knows no other node until it joins.
    pub fn restart(&mut self, at: usize) {
        assert_eq!(self.places[at].life, Life::Gone, "only a process that is gone can be restarted");
        let lives = self.places[at].lives + 1;
        let id = name_of(at, lives, self.places[at].spec.is_client);
        let node = self.fresh_node(&self.places[at].spec.clone(), id);
        let place = &mut self.places[at];
        place.processors = place.spec.idle_processors();
        place.node = node;
        (place.id, place.lives, place.life) = (id, lives, Life::Running);
        (place.armed, place.ahead) = (None, Duration::ZERO);
        place.loaded = place.spec.partitions.clone();
        (place.hanging, place.hung, place.failing) = (PartitionSet::new(), 0, Failing::default());
        (place.fails_after, place.locals_take_more) = (None, Duration::ZERO);
        self.arm(at);
    }

    /// Makes the node at `at` join through the nodes at `seeds`.
    pub fn join(&mut self, at: usize, seeds: &[usize], watch: &mut dyn Watch) {
        let addrs = seeds.iter().map(|&seed| super::place::addr_of(seed)).collect();
        self.feed(at, Input::Command(Command::Join(addrs)), watch);
    }

    /// Makes the node at `at` leave the cluster.
    pub fn leave(&mut self, at: usize, watch: &mut dyn Watch) {
        self.feed(at, Input::Command(Command::Leave), watch);
    }

    /// Stops the process (kill -STOP).
    pub fn stop(&mut self, at: usize) {
        if self.places[at].life == Life::Running {
            self.places[at].life = Life::Stopped;
        }
    }

    /// Resumes the process (kill -CONT). It gets its whole backlog at once.
    pub fn resume(&mut self, at: usize, watch: &mut dyn Watch) {
        if self.places[at].life != Life::Stopped {
            return;
        }
        self.places[at].life = Life::Running;
        let backlog: Vec<Input<Ink>> = std::mem::take(&mut self.places[at].backlog);
        backlog.into_iter().for_each(|input| self.feed(at, input, watch));
        self.arm(at);
    }

    /// Makes tasks that start at `at` from now on take `times` as long as usual.
    pub fn slow_down(&mut self, at: usize, times: f64) {
        let speed = self.places[at].spec.speed;
        self.places[at].processors.slow_down(times / speed);
    }

    /// Makes locals that start at `at` from now on take `more` time.
    pub fn delay_locals(&mut self, at: usize, more: Duration) {
        self.places[at].locals_take_more = more;
    }

    /// Makes the locals of `partitions` at `at` never return. An empty set ends this.
    pub fn hang(&mut self, at: usize, partitions: PartitionSet) {
        self.places[at].hanging = partitions;
    }

    /// Sets the operators that fail at `at` from now on.
    pub fn fail(&mut self, at: usize, failing: Failing) {
        self.places[at].failing = failing;
    }

    /// Makes every local at `at` return an error after this much work, from now on. `None` ends this. A node
    /// that fails fast looks idle.
    pub fn fail_fast(&mut self, at: usize, after: Option<Duration>) {
        self.places[at].fails_after = after;
    }

    /// Makes the clock of `at` jump ahead, as after a machine's sleep. It never goes back, because nodes read
    /// monotonic clocks.
    pub fn jump_clock(&mut self, at: usize, by: Duration) {
        self.places[at].ahead += by;
        self.places[at].armed = None;
        self.arm(at);
    }

    /// Breaks the connection between two places. Messages in flight are lost.
    pub fn break_link(&mut self, a: usize, b: usize) {
        self.break_connection(a, b, None);
    }

    /// Breaks the connection between two places, and each end notices it after its own time. Messages in
    /// flight are lost, and also the messages that an end sends before it notices the break.
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

    /// Makes one end notice that its connection has broken.
    pub(super) fn notice(&mut self, end: usize, peer: usize, watch: &mut dyn Watch) {
        if self.unnoticed.remove(&(end, peer)) {
            let peer = self.places[peer].id;
            self.feed(end, Input::Lost { peer }, watch);
        }
    }

    /// Cuts the link between two places in both directions, until [`World::mend_lasting`].
    pub fn cut_for_good(&mut self, a: usize, b: usize) {
        self.network.cut_for_good(a, b);
    }

    /// Cuts the link from `from` to `to`.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.network.cut(from, to);
    }

    /// Ends all cuts except the lasting ones, and delivers the messages that they held up.
    pub fn mend(&mut self) {
        self.network.mend_all();
        self.let_through();
    }

    /// Ends the lasting cuts, too.
    pub fn mend_lasting(&mut self) {
        self.network.mend_lasting();
        self.let_through();
    }

    fn let_through(&mut self) {
        let held_up = std::mem::take(&mut self.held_up);
        // A message that was sent later may arrive at this very time, and must not overtake them.
        self.agenda.plan_first(self.now, held_up.into_values().flatten().collect());
    }
}

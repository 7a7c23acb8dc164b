//! Which application's job runs next: start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM '96) on measured cost.
//!
//! Each application has a *share*. A job that begins moves its application's *finish* on by what it is expected to cost,
//! divided by the share, and when it is over, by what it cost more or less than that. The job to run is one of the
//! application whose next *start* is least: its finish, or, for whoever had nothing to do meanwhile, the *virtual time* if
//! that is later. The virtual time is the latest start of a job that was chosen, so that whoever comes begins with the
//! others, and what it did not use it has not saved. Who always has something to do keeps what it was charged too much: to
//! take that away, and not what it was charged too little, would be held against those whose jobs differ most.
//!
//! So applications that always have something to do get processor time in proportion to their shares, however long their
//! jobs are: 34 ms tasks and 2 ms tasks at equal shares get as much each, where a lottery with fixed weights gives tasks.
//! NetAgg (§3.2.1) corrects its lottery by average task times; here each job is charged what it took. An application is
//! behind what is due to it by a job's length at most, not by as long as an average takes to be learned.

use alloc::vec::Vec;

/// The least and the greatest share; equal shares are 1 each.
pub const SHARE_MIN: f64 = 0.001;
/// See [`SHARE_MIN`].
pub const SHARE_MAX: f64 = 1_000.0;

/// Who works on the loop, and not by turns, is ahead of the others by so much at most: a node would otherwise remember
/// for hours what was used of it.
pub const LEAD_MS_MAX: f64 = 500.0;

/// What is due to each application.
#[derive(Clone, Debug)]
pub struct Fair {
    accounts: Vec<Account>,
    virtual_ms: f64,
    /// How often somebody was chosen.
    rounds: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    share: f64,
    finish_ms: f64,
    /// Jobs that have begun and are not over.
    at_work: u32,
    /// The last round in which it had something to do.
    ready_in: Option<u64>,
}

impl Account {
    /// Where its next job starts, after so many `rounds`. Whoever has had nothing to do has saved nothing; others have
    /// saved what they were charged too much, up to [`LEAD_MS_MAX`].
    fn start_ms(&self, virtual_ms: f64, rounds: u64) -> f64 {
        let has_been_busy = self.at_work > 0 || self.ready_in.is_some_and(|round| round + 1 >= rounds);
        self.finish_ms.max(if has_been_busy { virtual_ms - LEAD_MS_MAX } else { virtual_ms })
    }
}

impl Fair {
    /// Applications with these shares, by number.
    pub fn new(shares: impl IntoIterator<Item = f64>) -> Self {
        let account = |share| Account { share: sane(share), finish_ms: 0.0, at_work: 0, ready_in: None };
        Self { accounts: shares.into_iter().map(account).collect(), virtual_ms: 0.0, rounds: 0 }
    }

    /// The one of these whose turn it is; of equals the first.
    pub fn choose(&mut self, ready: impl Iterator<Item = usize>) -> Option<usize> {
        self.rounds += 1;
        let mut first: Option<(f64, usize)> = None;
        for application in ready {
            let account = &mut self.accounts[application];
            account.finish_ms = account.start_ms(self.virtual_ms, self.rounds);
            account.ready_in = Some(self.rounds);
            if first.is_none_or(|(start_ms, _)| account.finish_ms < start_ms) {
                first = Some((account.finish_ms, application));
            }
        }
        let (start_ms, chosen) = first?;
        self.virtual_ms = self.virtual_ms.max(start_ms);
        Some(chosen)
    }

    /// A job begins that is expected to cost so much.
    pub fn begin(&mut self, application: usize, expected_ms: f64) {
        let account = &mut self.accounts[application];
        account.finish_ms = account.start_ms(self.virtual_ms, self.rounds) + expected_ms / account.share;
        account.at_work += 1;
    }

    /// Work is over that did not wait for a turn: it ran on the loop. While nobody else waits, nobody was kept waiting,
    /// and nothing is owed. Otherwise it is owed like any other, up to [`LEAD_MS_MAX`].
    pub fn charge(&mut self, application: usize, cost_ms: f64, others_wait: bool) {
        let account = &mut self.accounts[application];
        let start_ms = account.start_ms(self.virtual_ms, self.rounds);
        if !others_wait {
            account.finish_ms = start_ms + cost_ms / account.share;
            self.virtual_ms = self.virtual_ms.max(account.finish_ms);
            return;
        }
        let room_ms = (self.virtual_ms + LEAD_MS_MAX - start_ms).max(0.0);
        account.finish_ms = start_ms + (cost_ms / account.share).min(room_ms);
    }

    /// Another share from now on, also for what has been charged ahead of its time.
    pub fn set_share(&mut self, application: usize, share: f64) {
        let account = &mut self.accounts[application];
        let share = sane(share);
        let ahead_ms = (account.finish_ms - self.virtual_ms).max(0.0);
        account.finish_ms = self.virtual_ms.min(account.finish_ms) + ahead_ms * account.share / share;
        account.share = share;
    }

    /// A job is over: what it was expected to cost, and what it did.
    pub fn end(&mut self, application: usize, expected_ms: f64, cost_ms: f64) {
        let account = &mut self.accounts[application];
        account.finish_ms += (cost_ms - expected_ms) / account.share;
        account.at_work = account.at_work.saturating_sub(1);
    }
}

fn sane(share: f64) -> f64 {
    if share.is_nan() { 1.0 } else { share.clamp(SHARE_MIN, SHARE_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Processors that always find jobs of every application; how long each application was at work.
    struct Run {
        fair: Fair,
        /// What each application's jobs take, in turn.
        costs: Vec<Vec<f64>>,
        begun: Vec<usize>,
        expected: Vec<f64>,
        used_ms: Vec<f64>,
        /// When each processor is free again, and whose job it is at.
        processors: Vec<(f64, Option<Task>)>,
    }

    /// Whose it is, and what it was expected to cost and will.
    type Task = (usize, f64, f64);

    impl Run {
        fn of(shares: &[f64], costs: Vec<Vec<f64>>, processors: usize) -> Self {
            Self {
                fair: Fair::new(shares.iter().copied()),
                begun: alloc::vec![0; shares.len()],
                // Nothing is known at first.
                expected: alloc::vec![1.0; shares.len()],
                used_ms: alloc::vec![0.0; shares.len()],
                processors: alloc::vec![(0.0, None); processors],
                costs,
            }
        }

        /// Runs until `until_ms`, with jobs of those who are `ready` at each time.
        fn until(&mut self, until_ms: f64, ready: impl Fn(f64, usize) -> bool) {
            loop {
                let free = self.processors.iter().enumerate();
                let at = free.min_by(|a, b| a.1.0.total_cmp(&b.1.0)).map(|(at, _)| at).expect("one");
                let (now, done) = self.processors[at];
                if now >= until_ms {
                    return;
                }
                if let Some((who, expected, cost)) = done {
                    self.fair.end(who, expected, cost);
                    self.expected[who] += (cost - self.expected[who]) * 0.1;
                    self.used_ms[who] += cost;
                }
                let who = (0..self.costs.len()).filter(|&who| ready(now, who));
                let Some(who) = self.fair.choose(who) else {
                    self.processors[at] = (now + 1.0, None);
                    continue;
                };
                let cost = self.costs[who][self.begun[who] % self.costs[who].len()];
                self.begun[who] += 1;
                let expected = self.expected[who];
                self.fair.begin(who, expected);
                self.processors[at] = (now + cost, Some((who, expected, cost)));
            }
        }
    }

    #[test]
    fn long_and_short_tasks_get_what_their_shares_say() {
        for (shares, due) in [([1.0, 1.0], 0.5), ([3.0, 1.0], 0.75), ([1.0, 3.0], 0.25)] {
            for processors in [1, 4] {
                let mut run = Run::of(&shares, alloc::vec![alloc::vec![34.0], alloc::vec![2.0]], processors);
                run.until(60_000.0, |_, _| true);
                let part = run.used_ms[0] / (run.used_ms[0] + run.used_ms[1]);
                assert!((part - due).abs() < 0.005, "{shares:?} on {processors}: {part}");
            }
        }
    }

    #[test]
    fn jobs_that_differ_much_are_not_held_against_anyone() {
        // Mostly short ones and a long one now and then, on many processors, beside jobs that are always the same.
        let uneven: Vec<f64> = (0..40).map(|nth| if nth % 8 == 3 { 160.0 } else { 16.0 }).collect();
        let mut run = Run::of(&[1.0, 1.0], alloc::vec![uneven, alloc::vec![2.0]], 8);
        run.until(120_000.0, |_, _| true);
        let part = run.used_ms[0] / (run.used_ms[0] + run.used_ms[1]);
        assert!((part - 0.5).abs() < 0.005, "{part}");
    }

    #[test]
    fn who_had_nothing_to_do_has_saved_nothing() {
        let mut run = Run::of(&[1.0, 1.0], alloc::vec![alloc::vec![5.0], alloc::vec![5.0]], 1);
        run.until(10_000.0, |_, who| who == 0);
        let before = run.used_ms.clone();
        run.until(11_000.0, |_, _| true);
        let of = |who: usize| run.used_ms[who] - before[who];
        assert!((of(0) - of(1)).abs() <= 10.0, "{} and {}", of(0), of(1));
    }

    #[test]
    fn shares_that_make_no_sense_are_made_to() {
        let fair = Fair::new([f64::NAN, -1.0, f64::INFINITY]);
        let shares: Vec<f64> = fair.accounts.iter().map(|account| account.share).collect();
        assert_eq!(shares, [1.0, SHARE_MIN, SHARE_MAX]);
        assert_eq!(Fair::new([1.0]).choose(core::iter::empty()), None);
    }

    #[test]
    fn a_new_share_holds_at_once() {
        let mut run = Run::of(&[1.0, 1.0], alloc::vec![alloc::vec![34.0], alloc::vec![2.0]], 2);
        for (share, due) in [(1.0, 0.5), (3.0, 0.75), (0.2, 1.0 / 6.0), (1.0, 0.5)] {
            run.fair.set_share(0, share);
            let (from_ms, before) = (run.processors[0].0, run.used_ms.clone());
            run.until(from_ms + 4_000.0, |_, _| true);
            let of = |who: usize| run.used_ms[who] - before[who];
            let part = of(0) / (of(0) + of(1));
            assert!((part - due).abs() < 0.02, "{share}: {part}");
        }
    }

    #[test]
    fn work_on_the_loop_is_owed_when_others_wait_and_not_for_ever() {
        let mut run = Run::of(&[1.0, 1.0], alloc::vec![alloc::vec![5.0], alloc::vec![5.0]], 1);
        let of = |run: &mut Run, until_ms: f64| {
            let before = run.used_ms.clone();
            run.until(until_ms, |_, _| true);
            run.used_ms[1] - before[1] - (run.used_ms[0] - before[0])
        };
        run.fair.charge(0, 10_000.0, false);
        assert!(of(&mut run, 1_000.0).abs() <= 10.0, "nobody waited");
        run.fair.charge(0, 100.0, true);
        assert!((of(&mut run, 2_000.0) - 100.0).abs() <= 10.0, "the other has as much in return");
        run.fair.charge(0, 10_000.0, true);
        assert!((of(&mut run, 4_000.0) - LEAD_MS_MAX).abs() <= 10.0, "and no more than this");
    }

    proptest! {
        /// On one processor an application is behind what is due to it by no more than each job that may come in between.
        #[test]
        fn nobody_is_behind_by_more_than_a_job_of_each(
            shares in proptest::collection::vec(0.1f64..10.0, 2..5),
            costs in proptest::collection::vec(proptest::collection::vec(0.5f64..40.0, 1..6), 5),
        ) {
            let costs: Vec<Vec<f64>> = costs.into_iter().take(shares.len()).collect();
            prop_assume!(costs.len() == shares.len());
            let longest = costs.iter().flatten().fold(0.0f64, |a, &b| a.max(b));
            let all: f64 = shares.iter().sum();
            let mut run = Run::of(&shares, costs, 1);
            for step in 1..=40 {
                run.until(f64::from(step) * 500.0, |_, _| true);
                let used: f64 = run.used_ms.iter().sum();
                for (who, share) in shares.iter().enumerate() {
                    let due = used * share / all;
                    // A job that was expected to be shorter is charged only when it is over: twice the longest each.
                    let most = 2.0 * longest * shares.len() as f64 * (share / all).max(1.0 - share / all);
                    prop_assert!((run.used_ms[who] - due).abs() <= most, "{who}: {} of {due}", run.used_ms[who]);
                }
            }
        }
    }
}

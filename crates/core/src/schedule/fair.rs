//! Chooses the application whose job runs next: start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM '96) on
//! measured cost.
//!
//! Each application has a *share*. When a job begins, its application's *finish* rises by the job's expected
//! cost divided by the share. When the job ends, the finish is corrected by the difference to the measured
//! cost. The next job is one of the application with the least *start*. The start is the application's
//! finish; if the application was idle, it is the *virtual time* if that is later. The virtual time is the
//! latest start of a chosen job. An application that comes back therefore begins level with the others, and
//! cannot save up unused time. An application that is always busy keeps the credit from jobs that cost less
//! than expected. Dropping such credits but not the debts would penalise the applications whose jobs vary
//! most.
//!
//! So applications that are always busy get processor time in proportion to their shares, regardless of the
//! length of their jobs: 34 ms tasks and 2 ms tasks at equal shares get equal time, where a lottery with
//! fixed weights gives equal numbers of tasks. NetAgg (§3.2.1) corrects its lottery by average task times;
//! here each job is charged its measured time. An application is behind its due by at most the length of a
//! job, not by the time that an average takes to adapt.

use alloc::vec::Vec;

/// The smallest share; equal shares are 1 each.
pub const SHARE_MIN: f64 = 0.001;
/// The largest share.
pub const SHARE_MAX: f64 = 1_000.0;

/// Largest lead of an application whose work runs on the loop without waiting for a turn.
///
/// Without a limit, a node would remember such work for hours.
pub const LEAD_MS_MAX: f64 = 500.0;

/// The accounts of all applications.
#[derive(Clone, Debug)]
pub struct Fair {
    accounts: Vec<Account>,
    virtual_ms: f64,
    /// Number of choices made.
    rounds: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    share: f64,
    finish_ms: f64,
    /// Jobs that have begun and have not ended.
    at_work: u32,
    /// The last round in which the application had a job to run.
    ready_in: Option<u64>,
}

impl Account {
    /// The start of its next job after so many `rounds`.
    ///
    /// An idle application has no credit. Others keep the credit from overestimated jobs, up to
    /// [`LEAD_MS_MAX`].
    fn start_ms(&self, virtual_ms: f64, rounds: u64) -> f64 {
        let has_been_busy = self.at_work > 0 || self.ready_in.is_some_and(|round| round + 1 >= rounds);
        self.finish_ms.max(if has_been_busy { virtual_ms - LEAD_MS_MAX } else { virtual_ms })
    }
}

impl Fair {
    /// Creates applications with these shares, by number.
    pub fn new(shares: impl IntoIterator<Item = f64>) -> Self {
        let account = |share| Account { share: sane(share), finish_ms: 0.0, at_work: 0, ready_in: None };
        Self { accounts: shares.into_iter().map(account).collect(), virtual_ms: 0.0, rounds: 0 }
    }

    /// Adds an application with this share. It begins level with the others.
    pub(crate) fn add(&mut self, share: f64) {
        let finish_ms = self.virtual_ms;
        self.accounts.push(Account { share: sane(share), finish_ms, at_work: 0, ready_in: None });
    }

    /// Chooses the application whose turn it is; of equals the first.
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

    /// Charges a job that begins its expected cost.
    pub fn begin(&mut self, application: usize, expected_ms: f64) {
        let account = &mut self.accounts[application];
        account.finish_ms = account.start_ms(self.virtual_ms, self.rounds) + expected_ms / account.share;
        account.at_work += 1;
    }

    /// Charges work that ran on the loop without waiting for a turn.
    ///
    /// If no other application waits, the work delayed nobody, and nothing is owed. Otherwise it is charged
    /// like any other work, up to [`LEAD_MS_MAX`].
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

    /// Sets a new share, also for costs that have been charged ahead of time.
    pub fn set_share(&mut self, application: usize, share: f64) {
        let account = &mut self.accounts[application];
        let share = sane(share);
        let ahead_ms = (account.finish_ms - self.virtual_ms).max(0.0);
        account.finish_ms = self.virtual_ms.min(account.finish_ms) + ahead_ms * account.share / share;
        account.share = share;
    }

    /// Corrects the charge of a job that has ended to its measured cost.
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

    /// Processors that always find jobs of every application, and the time that each application used.
    struct Run {
        fair: Fair,
        /// Costs of each application's jobs, in turn.
        costs: Vec<Vec<f64>>,
        begun: Vec<usize>,
        expected: Vec<f64>,
        used_ms: Vec<f64>,
        /// When each processor is free again, and its current job.
        processors: Vec<(f64, Option<Task>)>,
    }

    /// The application, the expected cost and the real cost.
    type Task = (usize, f64, f64);

    impl Run {
        fn of(shares: &[f64], costs: Vec<Vec<f64>>, processors: usize) -> Self {
            Self {
                fair: Fair::new(shares.iter().copied()),
                begun: alloc::vec![0; shares.len()],
                // No cost is known at first.
                expected: alloc::vec![1.0; shares.len()],
                used_ms: alloc::vec![0.0; shares.len()],
                processors: alloc::vec![(0.0, None); processors],
                costs,
            }
        }

        /// Runs until `until_ms`, with jobs of the applications that are `ready` at each time.
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
    fn long_and_short_tasks_get_time_by_their_shares() {
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
    fn uneven_job_costs_do_not_distort_the_shares() {
        // Short jobs and an occasional long one, on many processors, beside jobs of constant length.
        let uneven: Vec<f64> = (0..40).map(|nth| if nth % 8 == 3 { 160.0 } else { 16.0 }).collect();
        let mut run = Run::of(&[1.0, 1.0], alloc::vec![uneven, alloc::vec![2.0]], 8);
        run.until(120_000.0, |_, _| true);
        let part = run.used_ms[0] / (run.used_ms[0] + run.used_ms[1]);
        assert!((part - 0.5).abs() < 0.005, "{part}");
    }

    #[test]
    fn an_idle_application_saves_no_time() {
        let mut run = Run::of(&[1.0, 1.0], alloc::vec![alloc::vec![5.0], alloc::vec![5.0]], 1);
        run.until(10_000.0, |_, who| who == 0);
        let before = run.used_ms.clone();
        run.until(11_000.0, |_, _| true);
        let of = |who: usize| run.used_ms[who] - before[who];
        assert!((of(0) - of(1)).abs() <= 10.0, "{} and {}", of(0), of(1));
    }

    #[test]
    fn invalid_shares_are_clamped() {
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
    fn inline_work_is_charged_when_others_wait_up_to_a_limit() {
        let mut run = Run::of(&[1.0, 1.0], alloc::vec![alloc::vec![5.0], alloc::vec![5.0]], 1);
        let of = |run: &mut Run, until_ms: f64| {
            let before = run.used_ms.clone();
            run.until(until_ms, |_, _| true);
            run.used_ms[1] - before[1] - (run.used_ms[0] - before[0])
        };
        run.fair.charge(0, 10_000.0, false);
        assert!(of(&mut run, 1_000.0).abs() <= 10.0, "no application waited");
        run.fair.charge(0, 100.0, true);
        assert!(
            (of(&mut run, 2_000.0) - 100.0).abs() <= 10.0,
            "the other application gets as much in return"
        );
        run.fair.charge(0, 10_000.0, true);
        assert!((of(&mut run, 4_000.0) - LEAD_MS_MAX).abs() <= 10.0, "and no more than this");
    }

    proptest! {
        /// On one processor an application is behind its due by at most each job that may come in between.
        #[test]
        fn lag_is_bounded_by_the_longest_jobs(
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
                    // A job that was expected to be shorter is charged only at its end: twice the longest
                    // each.
                    let most = 2.0 * longest * shares.len() as f64 * (share / all).max(1.0 - share / all);
                    prop_assert!((run.used_ms[who] - due).abs() <= most, "{who}: {} of {due}", run.used_ms[who]);
                }
            }
        }
    }
}

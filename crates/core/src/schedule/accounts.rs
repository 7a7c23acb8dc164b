//! Each application's account: its share, its charges, and its use.
//!
//! An application is a service; all work that belongs to no service of this node is one application
//! ([`OTHERS`]). There are two levels of [`Fair`]. The classes share the processors as 95 to 5, so that batch
//! work does not starve behind endless interactive work. Within a class, applications share as their users
//! set. Work that waits alone, on either level, gets everything.
//!
//! Work is charged its measured cost, wherever it ran. A job that waits for a turn is charged its expected
//! cost when it begins; a [`Charge`] keeps that until the job ends. Work on the loop does not wait for a
//! turn, and is charged at its end.

use crate::schedule::fair::{Fair, SHARE_MAX, SHARE_MIN};
use crate::schedule::share::{
    BATCH_PART, Class, OTHERS, SETTINGS_MAX, ServiceAccount, ServiceShare, ShareError, ShareSetting,
};
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Length of the slots in which recent use is counted.
const SLOT: Duration = Duration::from_millis(500);
/// Number of slots that are recent.
const SLOTS: usize = 10;

/// A service's account, by number.
pub(crate) type AccountId = usize;

/// The charge of a job that has begun.
#[derive(Debug)]
#[must_use = "a charge that is never closed stays at the expected cost"]
pub(crate) struct Charge {
    account_id: AccountId,
    class: Class,
    expected_ms: f64,
}

/// All accounts.
#[derive(Debug)]
pub(crate) struct Accounts {
    accounts: Vec<Account>,
    by_name: BTreeMap<Arc<str>, AccountId>,
    /// The account of all other work.
    others: AccountId,
    account_of_kind: Vec<AccountId>,
    classes: Fair,
    /// For each class, the fair queue of its accounts.
    within: [Fair; 2],
}

#[derive(Debug)]
struct Account {
    name: Arc<str>,
    share: ServiceShare,
    /// False if it has no jobs of its own that could wait: it has no part of the queue's room.
    has_kinds: bool,
    /// False if it has held no bytes here so far: it then has no part of their room.
    ///
    /// Otherwise services that a node only knows of would take room from services that are in use.
    has_held: bool,
    used: Duration,
    recent: Recent,
    jobs_done: u64,
    refused: u64,
}

impl Account {
    fn new(name: &str, share: ServiceShare) -> Self {
        Self {
            name: name.into(),
            share,
            has_kinds: false,
            has_held: false,
            used: Duration::ZERO,
            recent: Recent::default(),
            jobs_done: 0,
            refused: 0,
        }
    }
}

impl Accounts {
    /// An account for the service of each aggregation in `kinds`, for each service in `others`, and one for all
    /// other work.
    pub(crate) fn new<'a>(
        kinds: impl Iterator<Item = &'a str> + Clone,
        others: impl Iterator<Item = &'a str>,
        shares: &BTreeMap<String, ServiceShare>,
    ) -> Self {
        let with_kinds: BTreeSet<&str> = kinds.clone().collect();
        let mut names: BTreeSet<&str> = others.collect();
        names.extend(&with_kinds);
        names.remove(OTHERS);
        let account = |name: &str| Account {
            has_kinds: with_kinds.contains(name),
            ..Account::new(name, shares.get(name).copied().unwrap_or_default())
        };
        let accounts: Vec<Account> = names.into_iter().chain([OTHERS]).map(account).collect();
        let by_name: BTreeMap<_, _> =
            (0..).zip(&accounts).map(|(at, it)| (Arc::clone(&it.name), at)).collect();
        let fair = || Fair::new(accounts.iter().map(|account| account.share.share));
        Self {
            account_of_kind: kinds.map(|service| by_name[service]).collect(),
            others: by_name[OTHERS],
            by_name,
            classes: Fair::new([1.0 - BATCH_PART, BATCH_PART]),
            within: [fair(), fair()],
            accounts,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.accounts.len()
    }

    pub(crate) fn of_kind(&self, kind: u32) -> AccountId {
        self.account_of_kind[kind as usize]
    }

    /// Takes one more kind. Returns true if its service has had no account until now.
    pub(crate) fn add_kind(&mut self, service: &str) -> bool {
        let known = self.by_name.get(service).copied();
        let account_id = known.unwrap_or_else(|| self.add(service));
        self.accounts[account_id].has_kinds = true;
        self.account_of_kind.push(account_id);
        known.is_none()
    }

    fn add(&mut self, service: &str) -> AccountId {
        let account = Account::new(service, ServiceShare::default());
        self.within.iter_mut().for_each(|fair| fair.add(account.share.share));
        self.by_name.insert(Arc::clone(&account.name), self.accounts.len());
        self.accounts.push(account);
        self.accounts.len() - 1
    }

    /// The account of a service.
    pub(crate) fn of_service(&self, service: &str) -> AccountId {
        self.by_name.get(service).copied().unwrap_or(self.others)
    }

    pub(crate) fn name(&self, account_id: AccountId) -> &Arc<str> {
        &self.accounts[account_id].name
    }

    /// The part of all waiting jobs that one account may have.
    pub(crate) fn part_of_jobs(&self, account_id: AccountId) -> f64 {
        self.part(account_id, |account| account.has_kinds)
    }

    /// The part of all held bytes that one account may have.
    pub(crate) fn part_of_bytes(&self, account_id: AccountId) -> f64 {
        self.part(account_id, |account| account.has_held)
    }

    /// One account's part among the accounts that `count`; 0 if it does not count itself.
    ///
    /// Room is divided by shares alone: a class decides which work goes first, not which work has more room.
    fn part(&self, account_id: AccountId, count: impl Fn(&Account) -> bool) -> f64 {
        let of = |account: &Account| if count(account) { account.share.share } else { 0.0 };
        let all: f64 = self.accounts.iter().map(of).sum();
        if all > 0.0 { of(&self.accounts[account_id]) / all } else { 0.0 }
    }

    /// Notes that an account holds bytes. True if it had never held any before.
    pub(crate) fn note_held(&mut self, account_id: AccountId) -> bool {
        !core::mem::replace(&mut self.accounts[account_id].has_held, true)
    }

    /// One account's part of the processors while all `busy` accounts always have work.
    pub(crate) fn part_while(&self, account_id: AccountId, busy: impl Fn(AccountId) -> bool) -> f64 {
        let own = self.accounts[account_id].share;
        let (mut of_class, mut is_other_class_busy) = (own.share, false);
        let others = self.accounts.iter().enumerate().filter(|&(at, _)| at != account_id && busy(at));
        for (_, account) in others {
            if account.share.class == own.class {
                of_class += account.share.share;
            } else {
                is_other_class_busy = true;
            }
        }
        let class_part = match (is_other_class_busy, own.class) {
            (false, _) => 1.0,
            (true, Class::Interactive) => 1.0 - BATCH_PART,
            (true, Class::Batch) => BATCH_PART,
        };
        class_part * own.share / of_class
    }

    /// Chooses the ready account whose turn it is.
    pub(crate) fn choose(&mut self, is_ready: impl Fn(AccountId) -> bool) -> Option<AccountId> {
        let Self { accounts, classes, within, .. } = self;
        let ready_of = |class: Class| {
            let accounts = &*accounts;
            let is_ready = &is_ready;
            (0..accounts.len())
                .filter(move |&account_id| accounts[account_id].share.class == class && is_ready(account_id))
        };
        let both = [Class::Interactive, Class::Batch];
        let class = classes.choose((0..2).filter(|&at| ready_of(both[at]).next().is_some()))?;
        within[class].choose(ready_of(both[class]))
    }

    /// Charges a job that begins its expected cost.
    pub(crate) fn begin(&mut self, account_id: AccountId, expected_ms: f64) -> Charge {
        let class = self.accounts[account_id].share.class;
        self.classes.begin(class as usize, expected_ms);
        self.within[class as usize].begin(account_id, expected_ms);
        Charge { account_id, class, expected_ms }
    }

    /// Ends a job, and corrects its charge to its cost.
    #[expect(clippy::needless_pass_by_value, reason = "a charge is closed once")]
    pub(crate) fn end(&mut self, now: Instant, charge: Charge, cost: Duration) {
        let Charge { account_id, class, expected_ms } = charge;
        let cost_ms = cost.as_millis_f64();
        self.classes.end(class as usize, expected_ms, cost_ms);
        self.within[class as usize].end(account_id, expected_ms, cost_ms);
        self.note(now, account_id, cost);
    }

    /// Charges finished work on the loop; `waits` says which accounts wait for a turn.
    pub(crate) fn charge_inline(
        &mut self,
        now: Instant,
        account_id: AccountId,
        cost: Duration,
        waits: impl Fn(AccountId) -> bool,
    ) {
        let class = self.accounts[account_id].share.class;
        let (mut class_waits, mut other_waits) = (false, false);
        for at in (0..self.accounts.len()).filter(|&at| at != account_id && waits(at)) {
            let is_same = self.accounts[at].share.class == class;
            class_waits |= is_same;
            other_waits |= !is_same;
        }
        let cost_ms = cost.as_millis_f64();
        self.classes.charge(class as usize, cost_ms, other_waits);
        self.within[class as usize].charge(account_id, cost_ms, class_waits);
        self.note(now, account_id, cost);
    }

    fn note(&mut self, now: Instant, account_id: AccountId, cost: Duration) {
        let account = &mut self.accounts[account_id];
        account.used += cost;
        account.recent.add(now, cost);
        account.jobs_done += 1;
    }

    /// Counts refused locals of an account.
    pub(crate) fn note_refused(&mut self, account_id: AccountId, locals: usize) {
        self.accounts[account_id].refused += locals as u64;
    }

    /// Sets new shares: all of these, or none.
    ///
    /// # Errors
    /// If one of them is invalid; all shares are then as before.
    pub(crate) fn set(&mut self, settings: &[ShareSetting]) -> Result<(), ShareError> {
        if settings.len() > SETTINGS_MAX {
            return Err(ShareError::TooMany { given: settings.len() });
        }
        for ShareSetting { service, share, .. } in settings {
            if !(SHARE_MIN..=SHARE_MAX).contains(share) {
                return Err(ShareError::OutOfBounds { service: service.clone(), share: *share });
            }
            if !self.by_name.contains_key(&**service) {
                let known = self.accounts.iter().map(|account| Arc::clone(&account.name)).collect();
                return Err(ShareError::UnknownService { service: service.clone(), known });
            }
        }
        for ShareSetting { service, share, class } in settings {
            let account_id = self.by_name[&**service];
            let of = &mut self.accounts[account_id].share;
            *of = ServiceShare { share: *share, class: class.unwrap_or(of.class) };
            self.within.iter_mut().for_each(|fair| fair.set_share(account_id, *share));
        }
        Ok(())
    }

    /// The account of each account. The caller adds the figures of waiting work.
    pub(crate) fn report(&self, now: Instant) -> impl Iterator<Item = ServiceAccount> + '_ {
        self.accounts.iter().map(move |account| ServiceAccount {
            service: Arc::clone(&account.name),
            share: account.share,
            used: account.used.into(),
            recent: account.recent.sum(now).into(),
            jobs_done: account.jobs_done,
            refused: account.refused,
            ..ServiceAccount::default()
        })
    }
}

/// How far back recent use goes.
pub(crate) fn window(now: Instant) -> Duration {
    let slot_ns = SLOT.as_nanos();
    let into_slot = now.as_nanos() % slot_ns;
    Duration::from_nanos((into_slot + slot_ns * (SLOTS as u64 - 1)).min(now.as_nanos()))
}

/// Processor time of the last few slots.
#[derive(Debug, Default)]
struct Recent {
    /// The number of each slot, and the time used in it.
    slots: [(u64, Duration); SLOTS],
}

impl Recent {
    fn add(&mut self, now: Instant, cost: Duration) {
        let number = now.as_nanos() / SLOT.as_nanos();
        let slot = &mut self.slots[number as usize % SLOTS];
        if slot.0 != number {
            *slot = (number, Duration::ZERO);
        }
        slot.1 += cost;
    }

    fn sum(&self, now: Instant) -> Duration {
        let number = now.as_nanos() / SLOT.as_nanos();
        let recent = self.slots.iter().filter(|(at, _)| at + SLOTS as u64 > number);
        recent.fold(Duration::ZERO, |sum, (_, used)| sum + *used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(shares: &[(&str, ServiceShare)]) -> Accounts {
        let names = || shares.iter().map(|(name, _)| *name);
        let shares = shares.iter().map(|(name, share)| ((*name).into(), *share)).collect();
        Accounts::new(names(), core::iter::empty(), &shares)
    }

    /// One processor that always finds work of these accounts: the part that each account used.
    fn used(accounts: &mut Accounts, ready: &[AccountId], cost_ms: &[f64], until_ms: f64) -> Vec<f64> {
        let (mut used, mut now_ms) = (alloc::vec![0.0; accounts.len()], 0.0);
        while now_ms < until_ms {
            let account_id =
                accounts.choose(|account_id| ready.contains(&account_id)).expect("an account waits");
            let charge = accounts.begin(account_id, 1.0);
            now_ms += cost_ms[account_id];
            used[account_id] += cost_ms[account_id] / until_ms;
            let now = Instant::from_nanos((now_ms * 1e6) as u64);
            accounts.end(now, charge, Duration::from_millis_f64(cost_ms[account_id]));
        }
        used
    }

    #[test]
    fn interactive_work_goes_first_and_batch_work_does_not_starve() {
        let mut accounts = accounts(&[
            ("a", ServiceShare::interactive(3.0)),
            ("b", ServiceShare::interactive(1.0)),
            ("c", ServiceShare::batch(100.0)),
        ]);
        let cost_ms = [4.0, 2.0, 30.0];
        let all = used(&mut accounts, &[0, 1, 2], &cost_ms, 60_000.0);
        let close = |part: f64, due: f64| assert!((part - due).abs() < 0.01, "{part} where {due} is due");
        close(all[2], BATCH_PART);
        close(all[0], 0.75 * (1.0 - BATCH_PART));
        close(all[1], 0.25 * (1.0 - BATCH_PART));
        close(used(&mut accounts, &[2], &cost_ms, 10_000.0)[2], 1.0);
        close(used(&mut accounts, &[0, 1], &cost_ms, 10_000.0)[0], 0.75);
        close(accounts.part_while(0, |account_id| account_id < 3), 0.75 * (1.0 - BATCH_PART));
        close(accounts.part_while(2, |account_id| account_id != 1), BATCH_PART);
        close(accounts.part_while(2, |_| false), 1.0);
    }

    #[test]
    fn shares_and_classes_change_while_work_goes_on() {
        let mut accounts = accounts(&[("a", 1.0.into()), ("b", 1.0.into())]);
        let setting = |service: &str, share, class| ShareSetting { service: service.into(), share, class };
        accounts.set(&[setting("a", 4.0, None)]).expect("both are known");
        let part = used(&mut accounts, &[0, 1], &[34.0, 2.0], 30_000.0)[0];
        assert!((part - 0.8).abs() < 0.01, "{part}");
        accounts.set(&[setting("a", 4.0, Some(Class::Batch))]).expect("both are known");
        let part = used(&mut accounts, &[0, 1], &[34.0, 2.0], 30_000.0)[0];
        assert!((part - BATCH_PART).abs() < 0.01, "{part}");
    }

    #[test]
    fn settings_hold_all_together_or_not_at_all() {
        let mut accounts = accounts(&[("a", 2.0.into())]);
        let setting = |service: &str, share| ShareSetting { service: service.into(), share, class: None };
        let shares =
            |accounts: &Accounts| accounts.accounts.iter().map(|it| it.share.share).collect::<Vec<_>>();
        let unknown = accounts.set(&[setting("a", 5.0), setting("b", 1.0)]);
        assert!(matches!(&unknown, Err(ShareError::UnknownService { service, known })
            if service == "b" && known.iter().map(|name| &**name).eq(["a", OTHERS])));
        let beyond = accounts.set(&[setting("a", 5.0), setting(OTHERS, f64::NAN)]);
        assert!(matches!(beyond, Err(ShareError::OutOfBounds { .. })));
        let many: Vec<_> = (0..=SETTINGS_MAX).map(|_| setting("a", 5.0)).collect();
        assert_eq!(accounts.set(&many), Err(ShareError::TooMany { given: SETTINGS_MAX + 1 }));
        assert_eq!(shares(&accounts), [2.0, 1.0]);
        accounts.set(&[setting("a", 5.0), setting(OTHERS, 0.5)]).expect("both are known");
        assert_eq!(shares(&accounts), [5.0, 0.5]);
    }

    #[test]
    fn room_is_divided_among_the_lanes_that_use_it() {
        let mut accounts = accounts(&[("a", 3.0.into()), ("b", ServiceShare::batch(1.0))]);
        assert_eq!(
            (accounts.part_of_jobs(0), accounts.part_of_jobs(1), accounts.part_of_jobs(2)),
            (0.75, 0.25, 0.0)
        );
        assert!(accounts.note_held(0) && !accounts.note_held(0));
        assert_eq!(
            (accounts.part_of_bytes(0), accounts.part_of_bytes(1)),
            (1.0, 0.0),
            "the other account_id has held nothing so far"
        );
        assert!(accounts.note_held(2));
        assert_eq!((accounts.part_of_bytes(0), accounts.part_of_bytes(2)), (0.75, 0.25));
        assert_eq!(accounts.part_of_jobs(0), 0.75, "none of its jobs wait in line");
    }

    #[test]
    fn recent_use_is_forgotten_after_the_window() {
        let mut accounts = accounts(&[("a", 1.0.into())]);
        let at = |ms: u64| Instant::START + Duration::from_millis(ms);
        for ms in [100, 600, 4_900] {
            accounts.charge_inline(at(ms), 0, Duration::from_millis(10), |_| false);
        }
        let recent = |now| accounts.report(now).next().map(|it| (it.recent.as_millis(), it.used.as_millis()));
        assert_eq!(recent(at(4_999)), Some((30, 30)));
        assert_eq!(recent(at(5_000)), Some((20, 30)), "the first half second is gone");
        assert_eq!(recent(at(60_000)), Some((0, 30)));
        assert_eq!(window(at(5_300)).as_millis(), 4_800);
        assert_eq!(window(at(300)).as_millis(), 300);
    }
}

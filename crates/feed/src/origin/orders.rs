//! Orders to a running origin: changes of its rules, and questions about its state.

use super::{Ask, Origin, Task};
use crate::operating::{OriginReport, QueueReport, RuleReport};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use treefold_core::time::Instant;
use treefold_mirror::change::{Change, ChangeError};
use treefold_mirror::origin::Applied;
use treefold_mirror::rules::RuleFile;

/// Time that a caller waits for the position from which a change holds. A stream that stands still takes longer.
const APPLIED_WITHIN: Duration = Duration::from_secs(2);

/// A change that an origin has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// The origin's epoch.
    pub epoch: u32,
    /// The new version of the rules.
    pub rules_version: u32,
    /// The position of the first event that the new rules choose. `None` if earlier events still wait to be sent; the
    /// change holds behind them.
    pub position: Option<u64>,
}

/// The reason why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The origin refuses the change. Its rules stay as they are.
    #[error(transparent)]
    Refused(#[from] ChangeError),
    /// No mirror follows this origin. Another one may have taken its place, so a change here would reach nobody.
    #[error("no mirror follows this origin")]
    NoMirrors,
    /// The origin has ended. It may have taken the change.
    #[error("the origin has ended")]
    Ended,
}

/// The present rules of an origin.
#[derive(Clone, Debug)]
pub struct PresentRules {
    /// The origin's epoch.
    pub epoch: u32,
    /// The version at which they were set.
    pub rules_version: u32,
    /// The rules.
    pub rules: Arc<RuleFile>,
}

/// An order to the origin's task.
pub(super) enum Order {
    Set(Box<Change>, oneshot::Sender<Result<Taken, SetError>>),
    Report(oneshot::Sender<OriginReport>),
    Rules(oneshot::Sender<PresentRules>),
}

/// A change that the task has taken, and the news that it holds.
pub(super) struct Taken {
    epoch: u32,
    rules_version: u32,
    applied: oneshot::Receiver<Applied>,
}

/// A way to give orders to a running origin. It does not keep the origin running.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    asks: mpsc::Sender<Ask>,
}

impl Orders {
    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask::Order(order(answer))).await.ok()?;
        answered.await.ok()
    }

    pub(crate) async fn set(&self, change: Change) -> Result<Set, SetError> {
        let taken = self.ask(|answer| Order::Set(Box::new(change), answer)).await;
        let Taken { epoch, rules_version, applied } = taken.ok_or(SetError::Ended)??;
        let position = match tokio::time::timeout(APPLIED_WITHIN, applied).await {
            Ok(Ok(applied)) => Some(applied.position),
            Ok(Err(_)) => return Err(SetError::Ended),
            Err(_) => None,
        };
        Ok(Set { epoch, rules_version, position })
    }

    pub(crate) async fn report(&self) -> Option<OriginReport> {
        self.ask(Order::Report).await
    }

    pub(crate) async fn rules(&self) -> Option<PresentRules> {
        self.ask(Order::Rules).await
    }
}

impl Origin {
    /// Changes the rules while events flow. Events that were offered before are chosen by the former rules, and later
    /// ones by the new rules; every mirror changes at the same position. The change lasts until this origin ends.
    ///
    /// # Errors
    /// [`SetError`].
    pub async fn set(&self, change: Change) -> Result<Set, SetError> {
        self.orders().set(change).await
    }

    /// The present state, in detail. `None` if the origin has ended.
    pub async fn report(&self) -> Option<OriginReport> {
        self.orders().report().await
    }

    /// The present rules. `None` if the origin has ended.
    pub async fn rules(&self) -> Option<PresentRules> {
        self.orders().rules().await
    }

    pub(crate) fn orders(&self) -> Orders {
        Orders { asks: self.asks.clone() }
    }
}

/// Callers that wait for the position from which their change holds, by its version.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<(u32, oneshot::Sender<Applied>)>);

impl Task {
    pub(super) fn obey(&mut self, now: Instant, order: Order) {
        // A caller that does not wait for its answer has gone.
        match order {
            Order::Set(change, answer) => drop(answer.send(self.set(now, *change))),
            Order::Report(answer) => drop(answer.send(self.report())),
            Order::Rules(answer) => {
                let rules = Arc::new(self.deciding.selector().rules().clone());
                let (epoch, rules_version) = (self.deciding.cut().epoch, self.deciding.set_version());
                drop(answer.send(PresentRules { epoch, rules_version, rules }));
            }
        }
        self.tell_applied();
    }

    fn set(&mut self, now: Instant, change: Change) -> Result<Taken, SetError> {
        if self.stream.endpoints().is_empty() {
            return Err(SetError::NoMirrors);
        }
        let rules_version = self.deciding.set(now, change)?;
        let (telling, applied) = oneshot::channel();
        self.waiting.0.push((rules_version, telling));
        Ok(Taken { epoch: self.deciding.cut().epoch, rules_version, applied })
    }

    /// Tells callers from which position on their changes hold.
    pub(super) fn tell_applied(&mut self) {
        while let Some(applied) = self.deciding.poll_applied() {
            if let Some(at) = self.waiting.0.iter().position(|(version, _)| *version == applied.version) {
                let (_, caller) = self.waiting.0.swap_remove(at);
                // It may wait no longer.
                let _ = caller.send(applied);
            }
        }
    }

    fn report(&self) -> OriginReport {
        let (status, deciding) = (self.status(), &self.deciding);
        let (events, bytes) = deciding.ready();
        let rules = deciding.selector().rules().rules.iter().zip(deciding.selector().counts());
        let log = deciding.log();
        OriginReport {
            epoch: status.cut.epoch,
            position: status.cut.position,
            committed: status.committed,
            mirrors: status.mirrors.iter().collect(),
            mode: status.mode,
            mode_choice: deciding.mode_choice(),
            rules_version: deciding.next_version(),
            rules_set_at: deciding.set_version(),
            rules: rules.map(|(rule, count)| RuleReport::of(rule, *count)).collect(),
            function_error: deciding.selector().function_error().map(ToOwned::to_owned),
            ready: QueueReport { events: events as u64, bytes: bytes as u64 },
            backup: QueueReport { events: log.uncommitted(), bytes: log.uncommitted_bytes() as u64 },
            acknowledged: deciding.acknowledged().map(|(name, number)| (name.clone(), number)).collect(),
            journal_problem: status.journal_problem.map(|problem| problem.to_string()),
        }
    }
}

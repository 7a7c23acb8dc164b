//! A candidate: takes over a feed whose origin has died.
//!
//! ```text
//!  status ─▶ an epoch that nobody knows ─▶ promises ─▶ elected? ─▶ the furthest mirror's log ─▶ an origin
//! ```
//!
//! [`treefold_mirror::promotion`] decides and says why this is safe; this module asks.

use crate::promising::{Answer, Asked, PROMISE, TAIL, TailAsked, WITHDRAW, packets_of};
use crate::random_seed;
use crate::reading::{MirrorStatus, STATUS};
use std::time::Duration;
use treefold::operators::Raw;
use treefold::{Client, Error, PartitionSet};
use treefold_mirror::promotion::{
    AUTOMATIC_LEAST, Elected, Election, NotElected, Pledge, PledgedLog, Promise, PromiseRefusal, Standing,
    Unelectable, may_stand, pledges_needed,
};
use treefold_mirror::recovery::{Recovery, RecoveryError};
use treefold_mirror::{Cut, Lineage};

/// Time that mirrors have to tell their state.
const STATUS_WITHIN: Duration = Duration::from_millis(500);
/// Time that mirrors have to promise: they write to their disks.
const PROMISE_WITHIN: Duration = Duration::from_secs(2);
/// Time that a mirror has for a part of its log.
const TAIL_WITHIN: Duration = Duration::from_secs(10);
/// Most elections in which another candidate was first.
const ELECTIONS_MAX: u32 = 5;
/// Tries to withdraw promises at all mirrors.
const WITHDRAWALS_MAX: u32 = 3;
/// Time between two questions whether mirrors hear an origin.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The authority by which a candidate takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// A person has ordered it, and vouches that the old origin is dead.
    ByHand,
    /// Nobody vouches for anything. The feed needs three mirrors, and promises that outlive their processes.
    Automatic {
        /// The time for which a mirror must have heard nothing of its origin, to promise.
        silence: Duration,
    },
    /// A person has ordered it, and vouches that the old origin and the mirrors that do not answer are dead for good.
    /// Acknowledged events that only these mirrors had are lost.
    WithoutMajority,
}

impl TakeOver {
    fn is_automatic(self) -> bool {
        matches!(self, Self::Automatic { .. })
    }

    fn silence_ms(self) -> u64 {
        match self {
            Self::Automatic { silence } => silence.as_millis() as u64,
            Self::ByHand | Self::WithoutMajority => 0,
        }
    }
}

/// The reason why a candidate has not taken over. The feed has no origin then, unless the old one lives and has its
/// copies still.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// No mirrors are in sight.
    #[error("no mirror of `{0}` is in sight")]
    NoMirrors(String),
    /// Too few mirrors for a take-over without a person's order.
    #[error(
        "the feed has {total} mirrors; only with {AUTOMATIC_LEAST} or more can a standby take over by itself. When the \
         origin is dead, take over by hand with --take-over"
    )]
    FewMirrors {
        /// The mirrors of the feed.
        total: u32,
    },
    /// With so many copies, no mirror may be missing.
    #[error(
        "with {copies} copies at {total} mirrors, a take-over needs all mirrors, so one death could make it impossible; \
         feed with --copies {} or more, or take over by hand with --take-over", total / 2 + 1
    )]
    FewCopies {
        /// The copies.
        copies: u32,
        /// The mirrors of the feed.
        total: u32,
    },
    /// Mirrors would forget their promises.
    #[error(
        "mirrors {0:?} would forget their promises if they restarted; start them with --serve \
         mirror=FEED:partitions=ID/TOTAL:promises=FILE, or take over by hand with --take-over"
    )]
    Forgetful(Vec<u32>),
    /// Enough mirrors answer for a take-over that loses nothing.
    #[error(
        "mirrors {answering:?} answer and have a state, and {needs} are enough: take over without --without-majority, \
         which would risk events for nothing"
    )]
    MajorityAnswers {
        /// The mirrors that answer and have a state.
        answering: Vec<u32>,
        /// The mirrors that are enough.
        needs: u32,
    },
    /// No pledges could be enough.
    #[error(transparent)]
    Unelectable(#[from] Unelectable),
    /// There are not enough pledges.
    #[error(transparent)]
    NotElected(#[from] NotElected),
    /// Other candidates were always first, or a mirror counts other mirrors.
    #[error("mirror {mirror} does not promise: {refusal}")]
    Refused {
        /// The mirror.
        mirror: u32,
        /// Its reason.
        refusal: PromiseRefusal,
    },
    /// The furthest mirror did not give its log.
    #[error("mirror {mirror}, which is the furthest, does not give its log: {problem}")]
    Tail {
        /// The mirror.
        mirror: u32,
        /// The problem.
        problem: String,
    },
    /// The furthest mirror's log is invalid.
    #[error("the log of the furthest mirror: {0}")]
    Recovery(#[from] RecoveryError),
    /// A call could not be made.
    #[error(transparent)]
    Call(#[from] Error),
}

/// The number of mirrors that the feed may have, as its mirrors declare it. 0 if none is in sight.
pub(crate) async fn mirrors_of(client: &Client, feed: &str) -> Result<u32, Error> {
    let totals = client.status().await?.totals;
    Ok(totals.iter().find(|known| known.service == feed).map_or(0, |known| known.agreed.total))
}

/// The mirrors that answer now.
pub(crate) async fn statuses(client: &Client, feed: &str) -> Vec<MirrorStatus> {
    let call = client.call::<Vec<MirrorStatus>>(&format!("{feed}/{STATUS}"), &());
    let mirrors = call.min_coverage(0.0).deadline(STATUS_WITHIN).await;
    mirrors.ok().and_then(|reply| reply.value).unwrap_or_default()
}

/// Checks that a candidate may take over by itself when the origin dies.
///
/// # Errors
/// [`TakeOverError`] if it could not, or not safely.
pub async fn check_standby(client: &Client, feed: &str, copies: u32) -> Result<(), TakeOverError> {
    let total = mirrors_of(client, feed).await?;
    match total {
        0 => return Err(TakeOverError::NoMirrors(feed.to_owned())),
        total if total < AUTOMATIC_LEAST => return Err(TakeOverError::FewMirrors { total }),
        _ => {}
    }
    Election::new(Promise::default(), total, copies)?;
    if pledges_needed(total, copies) == total {
        return Err(TakeOverError::FewCopies { copies, total });
    }
    let mirrors = statuses(client, feed).await;
    let forgetful: Vec<u32> =
        mirrors.iter().filter(|mirror| !mirror.keeps_promises).map(|mirror| mirror.mirror).collect();
    if forgetful.is_empty() { Ok(()) } else { Err(TakeOverError::Forgetful(forgetful)) }
}

/// Waits until as many mirrors as can elect a new origin have heard nothing of theirs for this time, see [`may_stand`].
/// Mirrors that have never had an origin do not count.
///
/// # Errors
/// If the client has ended.
pub async fn wait_for_silence(
    client: &Client,
    feed: &str,
    copies: u32,
    silence: Duration,
) -> Result<(), Error> {
    let asked_ms = silence.as_millis() as u64;
    loop {
        let total = mirrors_of(client, feed).await?;
        let silent_ms: Vec<u64> =
            statuses(client, feed).await.iter().filter_map(|mirror| mirror.silent_ms).collect();
        if may_stand(&silent_ms, asked_ms, total, copies) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A candidate that is elected, with the log that it continues.
#[derive(Debug)]
pub struct Won {
    pub(crate) recovery: Recovery,
    pub(crate) elected: Elected,
    pub(crate) candidate: u64,
    /// The mirrors whose promises were counted.
    pub(crate) promised: Vec<u32>,
}

impl Won {
    /// The place after which the new epoch begins.
    pub fn cut(&self) -> Cut {
        self.recovery.cut()
    }

    /// The mirrors whose promises were counted.
    pub fn promised(&self) -> &[u32] {
        &self.promised
    }
}

/// Takes promises and the furthest mirror's log. `copies` must be those of the old origin; `least` is the least epoch.
///
/// # Errors
/// [`TakeOverError`]. The promises are withdrawn then, at the mirrors that answer.
pub async fn win(
    client: &Client,
    feed: &str,
    copies: u32,
    least: u32,
    authority: TakeOver,
) -> Result<Won, TakeOverError> {
    let total = mirrors_of(client, feed).await?;
    if total == 0 {
        return Err(TakeOverError::NoMirrors(feed.to_owned()));
    }
    if authority.is_automatic() && total < AUTOMATIC_LEAST {
        return Err(TakeOverError::FewMirrors { total });
    }
    let mirrors = statuses(client, feed).await;
    let known = mirrors.iter().map(MirrorStatus::known).max().unwrap_or(0);
    let (mut epoch, mut tries, candidate) = (known.saturating_add(1).max(least), 1, random_seed());
    let new = |epoch| -> Result<Election, Unelectable> {
        let election = Election::new(Promise { epoch, candidate }, total, copies)?;
        Ok(match authority {
            TakeOver::ByHand => election,
            TakeOver::Automatic { .. } => election.automatic(),
            TakeOver::WithoutMajority => election.without_majority(),
        })
    };
    // A promise ends the old origin's epoch at the mirror, so it is not asked for in vain.
    let counts =
        |mirror: &&MirrorStatus| mirror.has_state && (mirror.keeps_promises || !authority.is_automatic());
    let answering: Vec<u32> = mirrors.iter().filter(counts).map(|mirror| mirror.mirror).collect();
    let needs = pledges_needed(total, copies);
    if authority == TakeOver::WithoutMajority && answering.len() as u32 >= needs {
        return Err(TakeOverError::MajorityAnswers { answering, needs });
    }
    if (answering.len() as u32) < needs {
        let mut hopeless = new(epoch)?;
        mirrors.iter().for_each(|mirror| hopeless.take(as_pledge(mirror)));
        hopeless.elected()?;
    }
    loop {
        let mut election = new(epoch)?;
        let error = match stand(client, feed, total, authority, &mut election).await {
            Ok((recovery, elected)) => {
                return Ok(Won { recovery, elected, candidate, promised: election.counted() });
            }
            Err(error) => error,
        };
        if let TakeOverError::Refused { refusal: PromiseRefusal::Later { known, .. }, .. } = &error
            && tries < ELECTIONS_MAX
        {
            tries += 1;
            epoch = known.saturating_add(1).max(epoch);
            // Two candidates must not outbid each other for ever.
            tokio::time::sleep(Duration::from_millis(random_seed() % 200)).await;
            continue;
        }
        withdraw(client, feed, election.promise()).await;
        return Err(error);
    }
}

/// Stands for one election: asks for promises, and reads the furthest mirror's log if they are enough.
async fn stand(
    client: &Client,
    feed: &str,
    total: u32,
    authority: TakeOver,
    election: &mut Election,
) -> Result<(Recovery, Elected), TakeOverError> {
    let refused = ask(client, feed, total, authority, election).await?;
    let elected = election.elected().map_err(|not_elected| match refused {
        Some((mirror, refusal)) => TakeOverError::Refused { mirror, refusal },
        None => not_elected.into(),
    })?;
    Ok((read(client, feed, election.promise(), &elected).await?, elected))
}

/// Withdraws promises that are never to be used: the old origin may live, and goes on with all its mirrors.
async fn withdraw(client: &Client, feed: &str, promise: Promise) {
    for _ in 0..WITHDRAWALS_MAX {
        let call = client.call::<u32>(&format!("{feed}/{WITHDRAW}"), &promise);
        match call.min_coverage(0.0).deadline(PROMISE_WITHIN).await {
            Ok(reply) if reply.missing.is_empty() => return,
            // A mirror that is away may have the promise.
            Ok(reply) => tracing::info!(feed, missing = ?reply.missing, "promises may not be withdrawn"),
            Err(error) => tracing::info!(feed, %error, "promises may not be withdrawn"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The pledge that a mirror would give.
fn as_pledge(mirror: &MirrorStatus) -> Pledge {
    let log = mirror.has_state.then(|| PledgedLog {
        standing: Standing { adopted: mirror.epoch, position: mirror.position },
        past: Lineage::default(),
        base: 0,
        rules_version: mirror.rules_version,
        streams: Vec::new(),
    });
    Pledge { mirror: mirror.mirror, log, is_durable: mirror.keeps_promises }
}

/// Asks all mirrors for their promise. Returns the refusal that knows the latest epoch.
async fn ask(
    client: &Client,
    feed: &str,
    mirrors: u32,
    authority: TakeOver,
    election: &mut Election,
) -> Result<Option<(u32, PromiseRefusal)>, TakeOverError> {
    let asked = Asked { promise: election.promise(), mirrors, silence_ms: authority.silence_ms() };
    let call = client.call::<Vec<Answer>>(&format!("{feed}/{PROMISE}"), &asked);
    let answers = call.min_coverage(0.0).deadline(PROMISE_WITHIN).await?;
    for missing in &answers.missing {
        let partitions = &missing.partitions;
        tracing::info!(feed, %partitions, reason = %missing.reason, "no promise");
    }
    let mut refused = Vec::new();
    for answer in answers.value.unwrap_or_default() {
        match answer {
            Answer::Pledged(pledge) => election.take(pledge),
            Answer::Refused { mirror, refusal } => refused.push((mirror, refusal)),
        }
    }
    let known = |refusal: &PromiseRefusal| match refusal {
        PromiseRefusal::Later { known, .. } => *known,
        // Trying again at once does not help.
        PromiseRefusal::Total { .. } | PromiseRefusal::Hears { .. } => u32::MAX,
    };
    Ok(refused.into_iter().max_by_key(|(_, refusal)| known(refusal)))
}

/// Reads the log of the furthest mirror, as if it were a journal.
async fn read(
    client: &Client,
    feed: &str,
    promise: Promise,
    elected: &Elected,
) -> Result<Recovery, TakeOverError> {
    let mirror = elected.mirror;
    let tail = |problem: String| TakeOverError::Tail { mirror, problem };
    let mut recovery = Recovery::of_mirror(promise.epoch, elected);
    let standing = elected.log.standing;
    // It asks at least once: the mirror may have lost its state since its promise.
    loop {
        let asked = TailAsked { promise, standing, after: recovery.position() };
        let reply = client
            .call::<Raw>(&format!("{feed}/{TAIL}"), &asked)
            .partitions(PartitionSet::from_iter([mirror]))
            .deadline(TAIL_WITHIN)
            .await?;
        let Some(Raw(bytes)) = reply.value else {
            let reason = reply.missing.first().map(|missing| missing.reason.to_string());
            return Err(tail(reason.unwrap_or_else(|| "it did not answer".to_owned())));
        };
        let packets = packets_of(&bytes).ok_or_else(|| tail("it is no list of packets".to_owned()))?;
        let is_empty = packets.is_empty();
        for packet in packets {
            recovery.take_packet(&packet)?;
        }
        if recovery.position() >= standing.position {
            break;
        }
        if is_empty {
            return Err(tail(format!("it ends at position {}", recovery.position())));
        }
    }
    if recovery.position() > elected.log.standing.position {
        return Err(tail("it goes beyond the position that the mirror has told".to_owned()));
    }
    Ok(recovery)
}

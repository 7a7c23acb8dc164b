//! A mirror's promises to candidates that take over its feed, and the calls by which candidates ask for them.
//!
//! A promise must be durable before the mirror answers, if a candidate may take over without a person's order: a mirror
//! that restarts and has forgotten it could take part for the old origin again.

use crate::mirror::Shared;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;
use treefold::operators::{OperatorError, Raw, Result};
use treefold::{Aggregation, Partition, Service};
use treefold_core::encoding::numbers::{put_number, take_number};
use treefold_journal::summed::{check_summed, write_summed};
use treefold_mirror::promotion::{Pledge, Promise, PromiseRefusal, Standing};

/// The aggregation by which mirrors promise an epoch.
pub(crate) const PROMISE: &str = "promise";
/// The aggregation by which a candidate that gives up withdraws a promise.
pub(crate) const WITHDRAW: &str = "withdraw";
/// The aggregation by which a mirror gives a part of its log.
pub(crate) const TAIL: &str = "tail";
/// First word of a file of promises.
const MAGIC: &str = "TFP2";
/// First word of a file of before, without a checksum, which is read too.
const UNSUMMED: &str = "TFP1";
/// Bytes of packets above which an answer to [`TAIL`] gets no further packet.
const TAIL_BYTES_MAX: usize = 1 << 20;

/// Adds the aggregations to a feed's service.
pub(crate) fn promising(service: Service) -> Service {
    service.aggregation(PROMISE, Promising).aggregation(WITHDRAW, Withdrawing).aggregation(TAIL, Tailing)
}

/// The request of a candidate.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    pub(crate) promise: Promise,
    /// The number of mirrors that the candidate counts.
    pub(crate) mirrors: u32,
    /// The time for which a mirror must have heard nothing of its origin, in ms. 0 if a person has ordered it.
    pub(crate) silence_ms: u64,
}

/// The answer of one mirror.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Pledged(Pledge),
    Refused { mirror: u32, refusal: PromiseRefusal },
}

/// The part of a log that a candidate asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TailAsked {
    pub(crate) promise: Promise,
    /// How far the mirror was when it gave its promise. If it has restarted, it is not any more.
    pub(crate) standing: Standing,
    pub(crate) after: u64,
}

/// The file that keeps a mirror's last promise, a text with a checksum ([`summed`](treefold_journal::summed)).
///
/// ```text
/// TFP2 flights 0/3
/// 2 8101238817236487
/// 5a3c1f09
/// ```
#[derive(Clone, Debug)]
pub struct PromiseFile {
    path: PathBuf,
    /// The feed, with the mirror's number and the total.
    owner: String,
    /// The promise that it had when it was read.
    found: Promise,
}

impl PromiseFile {
    /// Reads the promises of mirror `number` of `total`. A file that does not exist is one without a promise.
    ///
    /// # Errors
    /// If the file can't be read, or is not one of this mirror.
    pub fn read(path: impl Into<PathBuf>, feed: &str, number: u32, total: u32) -> io::Result<Self> {
        let (path, owner) = (path.into(), format!("{feed} {number}/{total}"));
        let found = match fs::read_to_string(&path) {
            Ok(text) => parse(&text, &owner).ok_or_else(|| {
                let problem = format!("{} does not have the promises of mirror {owner}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, problem)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Promise::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, owner, found })
    }

    pub(crate) fn found(&self) -> Promise {
        self.found
    }

    /// Replaces the file. It is durable when this returns.
    pub(crate) fn write(&self, promise: Promise) -> io::Result<()> {
        let text = format!("{MAGIC} {}\n{} {}\n", self.owner, promise.epoch, promise.candidate);
        write_summed(&self.path, text)
    }
}

fn parse(text: &str, owner: &str) -> Option<Promise> {
    let summed = if text.starts_with(UNSUMMED) { text } else { check_summed(text)? };
    let (head, rest) = summed.split_once('\n')?;
    let (magic, given) = head.split_once(' ')?;
    let (epoch, candidate) = rest.strip_suffix('\n')?.split_once(' ')?;
    ([MAGIC, UNSUMMED].contains(&magic) && given == owner)
        .then_some(Promise { epoch: epoch.parse().ok()?, candidate: candidate.parse().ok()? })
}

/// Promises an epoch to a candidate.
struct Promising;

impl Aggregation for Promising {
    type Params = Asked;
    type Partial = Vec<Answer>;

    fn local(&self, partition: &Partition, asked: &Asked) -> Result<Vec<Answer>> {
        let shared = partition.data_as::<Shared>()?;
        let mirror = shared.options.number;
        let promised = shared.promise(asked);
        let promised =
            promised.map_err(|error| OperatorError::new(format!("the file of promises: {error}")))?;
        Ok(vec![match promised {
            Ok(pledge) => Answer::Pledged(pledge),
            Err(refusal) => Answer::Refused { mirror, refusal },
        }])
    }

    fn reduce(&self, mut a: Vec<Answer>, b: Vec<Answer>, _: &Asked) -> Result<Vec<Answer>> {
        a.extend(b);
        Ok(a)
    }
}

/// Withdraws a promise of a candidate that has given up. The answer is the number of mirrors that had it.
struct Withdrawing;

impl Aggregation for Withdrawing {
    type Params = Promise;
    type Partial = u32;

    fn local(&self, partition: &Partition, promise: &Promise) -> Result<u32> {
        let withdrawn = partition.data_as::<Shared>()?.withdraw(*promise);
        let failed = |error| OperatorError::new(format!("the file of promises: {error}"));
        withdrawn.map(u32::from).map_err(failed)
    }

    fn reduce(&self, a: u32, b: u32, _: &Promise) -> Result<u32> {
        Ok(a.saturating_add(b))
    }
}

/// Gives a part of a mirror's log to the candidate to which it has promised an epoch.
struct Tailing;

impl Aggregation for Tailing {
    type Params = TailAsked;
    type Partial = Raw;

    fn local(&self, partition: &Partition, asked: &TailAsked) -> Result<Raw> {
        let held = partition.data_as::<Shared>()?.held();
        if held.promised() != asked.promise {
            return Err(OperatorError::new("this mirror has promised nothing to this candidate"));
        }
        if held.pledged().is_none_or(|log| log.standing != asked.standing) {
            return Err(OperatorError::new(
                "this mirror has restarted since its promise, and lost its state",
            ));
        }
        let packets = held.tail(asked.after).map_err(|error| OperatorError::new(error.to_string()))?;
        let mut out = Vec::new();
        for packet in packets {
            put_number(&mut out, packet.len() as u64);
            out.extend_from_slice(packet);
            if out.len() > TAIL_BYTES_MAX {
                break;
            }
        }
        Ok(Raw(out.into()))
    }

    fn reduce(&self, _: Raw, _: Raw, _: &TailAsked) -> Result<Raw> {
        Err(OperatorError::new("a log is that of one mirror; ask one partition"))
    }
}

/// Reads the packets of an answer to [`TAIL`]. `None` if the bytes are something else.
pub(crate) fn packets_of(bytes: &Bytes) -> Option<Vec<Bytes>> {
    let (mut rest, mut packets) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let length = usize::try_from(take_number(&mut rest).ok()?).ok()?;
        let (packet, left) = rest.split_at_checked(length)?;
        packets.push(bytes.slice_ref(packet));
        rest = left;
    }
    Some(packets)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

    use super::*;

    #[test]
    fn promise_is_read_back_and_that_of_another_mirror_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("promises");
        let read = |number| PromiseFile::read(&path, "flights", number, 3);
        let promise = Promise { epoch: 7, candidate: u64::MAX };
        let file = read(0).unwrap();
        assert_eq!(file.found(), Promise::default());
        file.write(promise).unwrap();
        assert_eq!(read(0).unwrap().found(), promise);
        assert!(
            read(1).unwrap_err().to_string().contains("does not have the promises of mirror flights 1/3")
        );
        let good = fs::read(&path).unwrap();
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bad).unwrap();
            assert!(read(0).is_err(), "bit {bit}");
        }
        for garbage in ["", "TFP1 flights 0/3", "TFP1 flights 0/3\n7\n", "TFP2 flights 0/3\n7 1\n"] {
            fs::write(&path, garbage).unwrap();
            assert!(read(0).is_err(), "{garbage}");
        }
        fs::write(&path, "TFP1 flights 0/3\n7 1\n").unwrap();
        assert_eq!(read(0).unwrap().found(), Promise { epoch: 7, candidate: 1 }, "a file of before");
    }

    #[test]
    fn garbled_tails_are_refused() {
        let mut out = Vec::new();
        for packet in [&b"one"[..], b""] {
            put_number(&mut out, packet.len() as u64);
            out.extend_from_slice(packet);
        }
        let out = Bytes::from(out);
        assert_eq!(packets_of(&out).unwrap(), [Bytes::from_static(b"one"), Bytes::new()]);
        assert_eq!(packets_of(&out.slice(..3)), None);
    }
}

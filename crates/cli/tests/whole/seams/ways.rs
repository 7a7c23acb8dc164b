//! The ways in: each makes a call and returns its account.

use super::bed::{Bed, HOLDERS};
use super::{grpc, http};
use serde_json::Value;
use std::time::Duration;
use treefold::{Body, Error, PartitionSet, Raw, Reply};

/// Rows of each slice of a partition of `numbers`.
const ROWS: usize = 25;
const SLICES: u32 = 4;
/// More than a call needs while a node hardly runs. One that stands still is noticed earlier.
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Command,
    Rust,
    Http,
    Grpc,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Call,
    /// Slice by slice.
    Each,
}

impl Use {
    pub(crate) const ALL: [Self; 2] = [Self::Call, Self::Each];

    pub(crate) fn slices(self) -> u32 {
        if self == Self::Call { 1 } else { SLICES }
    }
}

/// The account of a call.
pub(crate) struct Answer {
    pub(crate) value: String,
    pub(crate) contributors: PartitionSet,
    pub(crate) missing: Vec<(u32, String)>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} lines of {}, missing {:?}", self.value.lines().count(), self.contributors, self.missing)
    }
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Command, Self::Rust, Self::Http, Self::Grpc];

    /// Calls `numbers/run` with any coverage. The value is that of the contributors.
    pub(crate) fn call(self, bed: &Bed, asked: Use) -> Answer {
        let answer = match self {
            Self::Command => by_command(bed, asked),
            Self::Rust => block_on(by_rust(bed, asked)),
            Self::Http => http::call(bed, asked),
            Self::Grpc => block_on(grpc::call(bed, asked)),
        };
        let mut value = answer.value.as_str();
        for slice in 0..asked.slices() as usize {
            let of = |partitions: &PartitionSet| -> String {
                let rows = slice * ROWS..(slice + 1) * ROWS;
                rows.flat_map(|row| partitions.iter().map(move |id| format!("{row:06} {id}\n"))).collect()
            };
            // A slice may have a partition that is missing from a later one.
            let rest = value.strip_prefix(&of(&PartitionSet::first(HOLDERS)));
            let rest = rest.or_else(|| value.strip_prefix(&of(&answer.contributors)));
            value = rest.unwrap_or_else(|| panic!("{asked:?} over {self:?}: slice {slice} of {answer:?}"));
        }
        assert_eq!(value, "", "{asked:?} over {self:?}: {:?}", answer.missing);
        answer
    }
}

/// Runs a future to its end on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// The account of an answer in JSON, or of the lines of slices and their outcome.
pub(crate) fn account_of(lines: &[Value]) -> Answer {
    let (outcome, slices) = lines.split_last().expect("an outcome");
    let values = slices.iter().chain([outcome]).filter_map(|line| line["value"].as_str());
    let lost = |loss: &Value| {
        let reason = loss["reason"].as_str().expect("a reason").to_owned();
        (loss["partition"].as_u64().expect("a number") as u32, reason)
    };
    let missing: Vec<(u32, String)> =
        outcome["missing"].as_array().unwrap_or_else(|| panic!("{outcome}")).iter().map(lost).collect();
    let asked = outcome["coverage"]["asked"].as_u64().expect("a number") as u32;
    let answer = of_those_asked(asked, values.collect(), missing);
    assert_eq!(outcome["coverage"]["contributed"], answer.contributors.len(), "{outcome}");
    answer
}

/// The account of an answer in which all of the partitions that were asked, but the missing ones, contributed.
pub(crate) fn of_those_asked(asked: u32, value: String, missing: Vec<(u32, String)>) -> Answer {
    let mut contributors = PartitionSet::first(asked);
    contributors.subtract(&missing.iter().map(|(id, _)| *id).collect());
    Answer { value, contributors, missing }
}

fn by_command(bed: &Bed, asked: Use) -> Answer {
    let (deadline, slices) = (format!("{}s", DEADLINE.as_secs()), asked.slices().to_string());
    let mut words = vec!["call", "numbers/run", "--at", &bed.front, "-o", "json", "--min-coverage", "0"];
    words.extend(["--deadline", &deadline, "--slices", &slices]);
    words.extend((asked == Use::Each).then_some("--each"));
    let printed = bed.run(&words);
    let lines = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    account_of(&lines.collect::<Vec<_>>())
}

async fn by_rust(bed: &Bed, asked: Use) -> Answer {
    let client = bed.client().await;
    let call = client.call_raw("numbers/run", bytes::Bytes::new()).slices(asked.slices());
    let call = call.deadline(DEADLINE).min_coverage(0.0);
    if asked != Use::Each {
        let reply = call.await.expect("an answer");
        let value = reply.value.as_ref().map(text_of).unwrap_or_default();
        return account(&reply, value);
    }
    let (mut each, mut value) = (call.each_slice(), String::new());
    loop {
        match each.next().await {
            Ok(Some(slice)) => value += &text_of(&slice),
            Ok(None) | Err(Error::NoValue { .. }) => return account(each.so_far(), value),
            Err(error) => panic!("{error}"),
        }
    }
}

fn account<T>(reply: &Reply<T>, value: String) -> Answer {
    let missing = reply
        .missing
        .iter()
        .flat_map(|lost| lost.partitions.iter().map(|partition| (partition, lost.reason.name().to_owned())));
    Answer { value, contributors: reply.contributed.clone(), missing: missing.collect() }
}

fn text_of(value: &Raw) -> String {
    String::decode(&value.0).expect("a text")
}

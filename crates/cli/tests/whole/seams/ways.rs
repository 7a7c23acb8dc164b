//! The ways in: each makes a call and returns its account.

use super::bed::{Bed, HOLDERS};
use super::{grpc, http};
use serde_json::Value;
use std::collections::BTreeMap;
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
    C,
    Http,
    Grpc,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Call,
    /// In slices that are joined.
    Sliced,
    /// Slice by slice.
    Each,
}

impl Use {
    pub(crate) const ALL: [Self; 3] = [Self::Call, Self::Sliced, Self::Each];

    pub(crate) fn slices(self) -> u32 {
        if self == Self::Call { 1 } else { SLICES }
    }

    /// The service and its aggregation.
    pub(crate) fn kind(self) -> (&'static str, &'static str) {
        // Partials of `numbers` can't be cut.
        if self == Self::Sliced { ("search", "words") } else { ("numbers", "run") }
    }

    /// The parameters, as JSON.
    pub(crate) fn params(self) -> &'static str {
        if self == Self::Sliced { "{}" } else { "null" }
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
    pub(crate) const ALL: [Self; 5] = [Self::Command, Self::Rust, Self::C, Self::Http, Self::Grpc];
    /// The ways by which calls are made.
    pub(crate) const CALLS: [Self; 4] = [Self::Command, Self::Rust, Self::Http, Self::Grpc];

    /// Makes a call with any coverage. The value is that of the contributors.
    pub(crate) fn call(self, bed: &Bed, asked: Use, under: &str) -> Answer {
        let at = format!("{} {under}, {asked:?} over {self:?}", bed.name);
        let answer = match self {
            Self::Command => by_command(bed, asked),
            Self::Rust => block_on(by_rust(bed, asked)),
            Self::Http => http::call(bed, asked),
            Self::Grpc => block_on(grpc::call(bed, asked)),
            Self::C => panic!("invariant: C makes no calls"),
        };
        if asked == Use::Sliced {
            bed.check_words(&answer.value, &answer.contributors, &at);
            return answer;
        }
        let mut value = answer.value.as_str();
        for slice in 0..asked.slices() as usize {
            let of = |partitions: &PartitionSet| -> String {
                let rows = slice * ROWS..(slice + 1) * ROWS;
                rows.flat_map(|row| partitions.iter().map(move |id| format!("{row:06} {id}\n"))).collect()
            };
            // A slice may have a partition that is missing from a later one.
            let rest = value.strip_prefix(&of(&PartitionSet::first(HOLDERS)));
            let rest = rest.or_else(|| value.strip_prefix(&of(&answer.contributors)));
            value = rest.unwrap_or_else(|| panic!("{at}: slice {slice} of {answer:?}"));
        }
        assert_eq!(value, "", "{at}: {answer:?}");
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
    let values = slices.iter().chain([outcome]).map(|line| text_of(&line["value"]));
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

/// A text as it is, and counted words as lines.
pub(crate) fn text_of(value: &Value) -> String {
    let line = |(word, count): (&String, &Value)| format!("{word} {count}\n");
    match value {
        Value::Object(words) => words.iter().map(line).collect(),
        value => value.as_str().unwrap_or_default().to_owned(),
    }
}

fn by_command(bed: &Bed, asked: Use) -> Answer {
    let (deadline, slices) = (format!("{}s", DEADLINE.as_secs()), asked.slices().to_string());
    let (service, aggregation) = asked.kind();
    let kind = format!("{service}/{aggregation}");
    let mut words = vec![
        "call",
        &kind,
        "--params",
        asked.params(),
        "--at",
        &bed.front,
        "-o",
        "json",
        "--min-coverage",
        "0",
    ];
    words.extend(["--deadline", &deadline, "--slices", &slices]);
    words.extend((asked == Use::Each).then_some("--each"));
    let printed = bed.run(&words);
    let lines = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    account_of(&lines.collect::<Vec<_>>())
}

async fn by_rust(bed: &Bed, asked: Use) -> Answer {
    let client = bed.client().await;
    let (service, aggregation) = asked.kind();
    // An empty map.
    let params: &[u8] = if asked == Use::Sliced { &[0x80] } else { &[] };
    let call = client.call_raw(&format!("{service}/{aggregation}"), bytes::Bytes::from_static(params));
    let call = call.slices(asked.slices());
    let call = call.deadline(DEADLINE).min_coverage(0.0);
    if asked != Use::Each {
        let reply = call.await.expect("an answer");
        let value = reply.value.as_ref().map_or_else(String::new, |value| match asked {
            Use::Sliced => words_of(value),
            _ => decoded(value),
        });
        return account(&reply, value);
    }
    let (mut each, mut value) = (call.each_slice(), String::new());
    loop {
        match each.next().await {
            Ok(Some(slice)) => value += &decoded(&slice),
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

fn decoded(value: &Raw) -> String {
    String::decode(&value.0).expect("a text")
}

fn words_of(value: &Raw) -> String {
    let words = BTreeMap::<String, u64>::decode(&value.0).expect("counted words");
    words.into_iter().map(|(word, count)| format!("{word} {count}\n")).collect()
}

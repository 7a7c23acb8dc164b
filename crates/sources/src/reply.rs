//! Answers to sources, as JSON: refused events, acknowledged numbers, and errors that end a connection.

use crate::feeder::Refused;
use crate::intake::Reached;
use serde::Serialize;
use serde::ser::SerializeMap;
use treefold_feed::Acknowledged;
use treefold_mirror::Name;
use treefold_mirror::event::EventError;
use treefold_mirror::origin::Refusal;

/// Events that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refusals {
    /// The line of the first event, or its place in a JSON array.
    pub(crate) line: u64,
    /// Number of refused events, one after the other.
    pub(crate) events: u64,
    /// The stream; absent for a line that is no event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<Name>,
    /// Number of the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    /// The reason as a word.
    pub(crate) problem: &'static str,
    /// The number with which the source can go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<u64>,
    /// The reason as a sentence.
    pub(crate) message: String,
}

impl Refusals {
    /// The refusal of one event.
    pub(crate) fn of(line: u64, refused: Refused) -> Self {
        let message = refused.refusal.to_string();
        let (problem, expected) = match &refused.refusal {
            Refusal::Event(error) => (problem_of(error), None),
            Refusal::Repeated { last, .. } => ("repeated", Some(last.saturating_add(1))),
            Refusal::Jump { expected, .. } => ("jump", Some(*expected)),
            Refusal::Streams { .. } => ("streams", None),
            Refusal::Busy { .. } => ("busy", Some(refused.number)),
        };
        let (stream, number) = (Some(refused.stream), Some(refused.number));
        Self { line, events: 1, stream, number, problem, expected, message }
    }

    /// The refusal of a line that is no event.
    pub(crate) fn of_line(line: u64, error: &EventError) -> Self {
        let (problem, message) = (problem_of(error), error.to_string());
        Self { line, events: 1, stream: None, number: None, problem, expected: None, message }
    }

    /// Takes up a later refusal if it tells the source nothing new: further events of a stream that does not go on
    /// with the expected number.
    pub(crate) fn merge(&mut self, later: &Self) -> bool {
        let is_same = self.expected.is_some()
            && (self.problem, self.expected, &self.stream) == (later.problem, later.expected, &later.stream);
        if is_same {
            self.events += later.events;
        }
        is_same
    }
}

fn problem_of(error: &EventError) -> &'static str {
    match error {
        EventError::Json { .. } | EventError::Syntax { .. } => "syntax",
        EventError::Missing { .. } => "missing",
        _ => "invalid",
    }
}

/// Adds a refusal to a list, in which runs of equal refusals are one.
pub(crate) fn push_refusal(list: &mut Vec<Refusals>, refusal: Refusals) {
    if !list.last_mut().is_some_and(|last| last.merge(&refusal)) {
        list.push(refusal);
    }
}

/// An error that ends a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fatal {
    /// The line; absent if the error has no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// The reason as a word.
    pub(crate) problem: &'static str,
    /// The reason as a sentence.
    pub(crate) message: String,
}

/// Acknowledged numbers by stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<(Name, u64)>);

impl Numbers {
    /// All acknowledged numbers.
    pub(crate) fn all(acknowledged: &Acknowledged) -> Self {
        Self(acknowledged.iter().map(|(stream, number)| (stream.clone(), number)).collect())
    }

    /// The acknowledged numbers of these streams.
    pub(crate) fn of(acknowledged: &Acknowledged, reached: &Reached) -> Self {
        let number =
            |(stream, _): (&Name, u64)| acknowledged.of(stream).map(|number| (stream.clone(), number));
        Self(reached.iter().filter_map(number).collect())
    }
}

impl Serialize for Numbers {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (stream, number) in &self.0 {
            map.serialize_entry(stream, number)?;
        }
        map.end()
    }
}

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reply {
    Refused(Refusals),
    Acknowledged(Numbers),
    Error(Fatal),
}

impl Reply {
    /// Appends the line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(&mut *out, self)
            .expect("invariant: replies have string keys and go to a vector");
        out.push(b'\n');
    }
}

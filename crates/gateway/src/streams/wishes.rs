//! The settings of a stream, from a query. They are those of `treefold stream`, read by the same parsers.

use super::queue::Slow;
use crate::problem::Problem;
use crate::wishes::once;
use bytes::Bytes;
use std::time::Duration;
use treefold::{CallError, PartitionSet, Shape, StreamBuilder, Synchronisation};
use treefold_forms::value::message_pack_of_json;
use treefold_forms::{parse, stream};

/// The names of the settings.
pub(crate) const OPTIONS: [&str; 11] = [
    "filter",
    "down_filter",
    "filter_params",
    "params",
    "sync",
    "endpoints",
    "shape",
    "window",
    "send",
    "every",
    "slow",
];

/// Shortest interval at which a packet is sent again.
const EVERY_MIN: Duration = Duration::from_millis(10);

/// The settings of a stream. Eleven fields, because it has one for each setting.
#[derive(Debug, Default)]
pub(crate) struct StreamWishes {
    pub(crate) filter: String,
    pub(crate) down_filter: String,
    pub(crate) filter_params: Bytes,
    pub(crate) params: Bytes,
    pub(crate) sync: Option<Synchronisation>,
    endpoints: Option<PartitionSet>,
    shape: Option<Shape>,
    window: Option<u64>,
    pub(crate) send: Option<Bytes>,
    every: Option<Duration>,
    pub(crate) slow: Slow,
}

impl StreamWishes {
    /// Reads the settings of a request.
    pub(crate) fn of(given: Vec<(String, String)>) -> Result<Self, Problem> {
        let (mut wishes, mut seen) = (Self::default(), Vec::new());
        for (name, text) in given {
            let option = once(&OPTIONS, &name, &text, |option| seen.contains(&option))?;
            seen.push(option);
            wishes.add(option, text)?;
        }
        Ok(wishes)
    }

    fn add(&mut self, option: &'static str, text: String) -> Result<(), CallError> {
        match option {
            "filter" => self.filter = text,
            "down_filter" => self.down_filter = text,
            "filter_params" => self.filter_params = json(option, &text)?,
            "params" => self.params = json(option, &text)?,
            "sync" => self.sync = Some(stream::synchronisation(&text)?),
            "endpoints" => self.endpoints = Some(stream::endpoints(&text)?),
            "shape" => self.shape = Some(parse::shape(&text)?),
            "window" => self.window = Some(stream::window(&text)?),
            "send" => {
                let refuse = |problem: String| {
                    CallError::bad_field(
                        option,
                        &text,
                        format_args!("a packet as JSON, or a text ({problem})"),
                    )
                };
                self.send = Some(stream::payload(&text).map_err(refuse)?);
            }
            "every" => self.every = Some(stream::every(&text, EVERY_MIN)?),
            "slow" => self.slow = text.parse()?,
            _ => unreachable!("invariant: only known options are read"),
        }
        Ok(())
    }

    /// The packet to send, and the interval at which it is sent again. An interval alone means an empty packet.
    pub(super) fn sends(&self) -> Option<(Bytes, Option<Duration>)> {
        let packet = self.send.clone().or_else(|| self.every.map(|_| Bytes::new()));
        packet.map(|packet| (packet, self.every))
    }

    /// Applies the settings to a stream.
    pub(super) fn apply(&self, stream: StreamBuilder) -> StreamBuilder {
        let mut stream = stream
            .up_filter(self.filter.as_str())
            .down_filter(self.down_filter.as_str())
            .filter_params(&treefold::Raw(self.filter_params.clone()))
            .params(&treefold::Raw(self.params.clone()));
        if let Some(sync) = self.sync {
            stream = stream.synchronisation(sync);
        }
        if let Some(endpoints) = &self.endpoints {
            stream = stream.endpoints(endpoints.clone());
        }
        if let Some(shape) = self.shape {
            stream = stream.shape(shape);
        }
        if let Some(window) = self.window {
            stream = stream.window_bytes(window);
        }
        stream
    }
}

/// Reads parameters in JSON, which travel as MessagePack.
pub(crate) fn json(field: &str, text: &str) -> Result<Bytes, CallError> {
    let refuse = |problem: String| CallError::bad_field(field, text, format_args!("JSON ({problem})"));
    message_pack_of_json(text.as_bytes()).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(given: &[(&str, &str)]) -> Result<StreamWishes, Problem> {
        StreamWishes::of(given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect())
    }

    #[test]
    fn settings_are_those_of_the_command() {
        let all = [("filter", "max"), ("sync", "time-out:400"), ("every", "1s"), ("slow", "close")];
        let all = wishes(&all).unwrap();
        assert_eq!((all.filter.as_str(), all.slow), ("max", Slow::Close));
        assert_eq!(all.sync, Some(Synchronisation::TimeOut(Duration::from_millis(400))));
        assert_eq!(all.sends(), Some((Bytes::new(), Some(Duration::from_secs(1)))));
        assert_eq!(wishes(&[("send", "7")]).unwrap().sends(), Some((Bytes::from_static(&[7]), None)));
        assert_eq!(wishes(&[]).unwrap().sends(), None);
    }

    #[test]
    fn unknown_double_and_wrong_settings_are_refused() {
        let refused = |given: &[(&str, &str)]| wishes(given).err().map(|problem| problem.name());
        assert_eq!(refused(&[("fitler", "max")]), Some("unknown_field"));
        assert_eq!(refused(&[("filter", "max"), ("filter", "min")]), Some("bad_field"));
        for wrong in [("params", "{"), ("every", "1ms"), ("slow", "never"), ("sync", "time-out:0")] {
            assert_eq!(refused(&[wrong]), Some("bad_field"), "{wrong:?}");
        }
        let Err(problem) = wishes(&[("send", "1e400")]) else {
            panic!("a number beyond all others was taken")
        };
        let said = format!("{problem:?}");
        assert!(said.contains("allowed: a packet as JSON, or a text (number out of range"), "{said}");
    }
}

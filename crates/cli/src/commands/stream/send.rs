//! What goes down a stream, and when.

use crate::commands::failure_of;
use crate::exit::Failure;
use crate::output::packet::packet_of_json;
use crate::output::value::to_message_pack;
use bytes::Bytes;
use std::io::BufRead;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use treefold::StreamSender;

/// Lines read ahead of what the stream takes.
const LINES_WAITING_MAX: usize = 64;

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// Nothing: endpoints speak by themselves.
    Nothing,
    /// A packet, once, or again and again.
    Packet(Bytes),
    /// Each line of standard input.
    Lines,
}

impl Sends {
    /// What `--send` and `--every` ask for.
    pub(super) fn of(send: Option<&str>, every: Option<Duration>) -> Result<Self, Failure> {
        match send {
            None if every.is_some() => Ok(Self::Packet(Bytes::new())),
            None => Ok(Self::Nothing),
            Some("-") => Ok(Self::Lines),
            Some(given) => match given.strip_prefix('@') {
                Some(path) => std::fs::read(path).map(Bytes::from).map(Self::Packet).map_err(|error| {
                    Failure::usage(format!("--send {given}: {error}; @FILE is sent as it is"))
                }),
                None => payload_of(given).map(Self::Packet),
            },
        }
    }

    /// Sends it all; how many packets that were. Endless where it is to be sent again and again.
    pub(super) async fn send(self, sender: StreamSender, every: Option<Duration>) -> Result<u64, Failure> {
        let mut pace = every.map(|every| {
            let mut pace = interval_at(Instant::now(), every);
            // A stream that was full is not flooded when it is not.
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pace
        });
        let mut lines = match self {
            Self::Nothing => return Ok(0),
            Self::Packet(payload) => loop {
                match &mut pace {
                    Some(pace) => drop(pace.tick().await),
                    None => return sender.send(payload).await.map(|_| 1).map_err(failure_of),
                }
                sender.send(payload.clone()).await.map_err(failure_of)?;
            },
            Self::Lines => lines(),
        };
        let mut sent = 0;
        while let Some(line) = lines.recv().await {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            sender.send(payload_of(&line)?).await.map_err(failure_of)?;
            sent += 1;
        }
        Ok(sent)
    }
}

/// A packet as it is written on the command line, for other commands: what is wrong with it names `option`.
pub(crate) fn packet_given(option: &str, given: &str) -> Result<Bytes, Failure> {
    let refuse = |problem: &dyn std::fmt::Display| Failure::usage(format!("{option} {given}: {problem}"));
    let json = serde_json::from_str::<serde_json::Value>(given).map_err(|error| refuse(&error))?;
    match packet_of_json(&json) {
        Some(packet) => packet.map_err(|problem| refuse(&problem)),
        None => Err(refuse(&"no packet; give {\"format\": \"i64\", \"values\": [3]}")),
    }
}

/// A packet as it is written on the command line: JSON with `format` and `values` is a typed packet, other JSON a
/// MessagePack value, anything else a text.
fn payload_of(given: &str) -> Result<Bytes, Failure> {
    let refuse = |problem: &dyn std::fmt::Display| Failure::usage(format!("--send {given}: {problem}"));
    match serde_json::from_str::<serde_json::Value>(given) {
        Err(_) => Ok(Bytes::from(given.to_owned())),
        Ok(json) => match packet_of_json(&json) {
            Some(packet) => packet.map_err(|problem| refuse(&problem)),
            None => to_message_pack(&json).map_err(|problem| refuse(&problem)),
        },
    }
}

/// Reads lines on a thread of its own, which sits in a blocking read until the process ends.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(LINES_WAITING_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::packet::payload_line;

    fn sent(given: &str) -> String {
        match Sends::of(Some(given), None).unwrap() {
            Sends::Packet(payload) => payload_line(&payload),
            other => panic!("{given} is {other:?}"),
        }
    }

    #[test]
    fn what_is_sent_is_a_packet_a_value_or_a_text() {
        assert_eq!(sent(r#"{"format": "i64 str", "values": [3, "a"]}"#), r#"i64 3  str "a""#);
        assert_eq!(sent("[1, 2]"), "[1,2]");
        assert_eq!(sent("hello"), "hello");
        assert_eq!(Sends::of(Some("-"), None).unwrap(), Sends::Lines);
        assert_eq!(Sends::of(None, None).unwrap(), Sends::Nothing);
        let every = Some(Duration::from_secs(1));
        assert_eq!(Sends::of(None, every).unwrap(), Sends::Packet(Bytes::new()), "a beat");
        let refused = Sends::of(Some(r#"{"format": "i64", "values": ["a"]}"#), None).unwrap_err().to_string();
        assert!(refused.starts_with("--send ") && refused.contains("is no i64"), "{refused}");
        assert!(Sends::of(Some("@/nowhere/at/all"), None).unwrap_err().to_string().contains("@FILE"));
    }
}

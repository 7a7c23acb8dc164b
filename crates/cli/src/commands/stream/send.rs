//! The packets that are sent down a stream, and their pace.

use crate::commands::failure_of;
use crate::exit::Failure;
use crate::output::packet::packet_of_json;
use bytes::Bytes;
use std::io::{self, BufRead, Read};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use treefold::operators::text::{json, unmarked_bytes};
use treefold::{Limits, StreamSender};
use treefold_forms::stream;

/// Largest number of lines read ahead of the stream.
const LINES_WAITING_MAX: usize = 64;

/// The packets to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// No packets: endpoints send by themselves.
    Nothing,
    /// One packet, once or repeatedly.
    Packet(Bytes),
    /// Each line of standard input.
    Lines,
}

impl Sends {
    /// Parses `--send` and `--every`.
    pub(super) fn of(send: Option<&str>, every: Option<Duration>) -> Result<Self, Failure> {
        match send {
            None if every.is_some() => Ok(Self::Packet(Bytes::new())),
            None => Ok(Self::Nothing),
            Some("-") => Ok(Self::Lines),
            Some(given) => match given.strip_prefix('@') {
                Some(path) => std::fs::read(path).map(Bytes::from).map(Self::Packet).map_err(|error| {
                    Failure::failed(format!("--send {given}: {error}; give a readable file as @FILE"))
                }),
                None => payload_of(given).map(Self::Packet),
            },
        }
    }

    /// Sends the packets and returns their number.
    ///
    /// Never returns if a packet is repeated.
    pub(super) async fn send(self, sender: StreamSender, every: Option<Duration>) -> Result<u64, Failure> {
        let mut pace = every.map(|every| {
            let mut pace = interval_at(Instant::now(), every);
            // After a full window, missed ticks are not made up for.
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
            sender.send(payload_of_line(line)?).await.map_err(failure_of)?;
            sent += 1;
        }
        Ok(sent)
    }
}

/// Parses a packet on the command line, for other commands.
///
/// Errors name `option`.
pub(crate) fn packet_given(option: &str, given: &str) -> Result<Bytes, Failure> {
    let refuse = |problem: &dyn std::fmt::Display| Failure::usage(format!("{option} {given}: {problem}"));
    let json = json::from_str::<serde_json::Value>(given).map_err(|error| refuse(&error))?;
    match packet_of_json(&json) {
        Some(packet) => packet.map_err(|problem| refuse(&problem)),
        None => Err(refuse(&"not a packet; give {\"format\": \"i64\", \"values\": [3]}")),
    }
}

/// Parses a packet on the command line.
///
/// JSON with `format` and `values` is a typed packet, other JSON is a MessagePack value, and anything else is
/// a text.
fn payload_of(given: &str) -> Result<Bytes, Failure> {
    stream::payload(given).map_err(|problem| Failure::usage(format!("--send {given}: {problem}")))
}

/// Parses a line of standard input as [`payload_of`] does; a line that is no text is sent as it is.
fn payload_of_line(line: Vec<u8>) -> Result<Bytes, Failure> {
    match std::str::from_utf8(&line) {
        Ok(text) => payload_of(text),
        Err(_) => Ok(line.into()),
    }
}

/// Reads lines on a separate thread, which blocks in a read until the process ends.
fn lines() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(LINES_WAITING_MAX);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut is_first = true;
        while let Ok(Some(mut line)) = next_line(&mut input) {
            if std::mem::take(&mut is_first) {
                line = unmarked_bytes(&line).to_vec();
            }
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Reads a line without its end. A longer line than a packet may be is cut, so that it is refused when it is sent.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let bytes_max = Limits::DEFAULT.payload_bytes_max as u64 + 1;
    if input.take(bytes_max + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        line.pop_if(|byte| *byte == b'\r');
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::packet::payload_line;

    #[test]
    fn lines_that_are_no_text_are_sent_as_they_are() {
        let mut input = io::Cursor::new(b"7\r\n\xff\xfe\x00\nlast".to_vec());
        let mut next = || next_line(&mut input).unwrap().map(|line| payload_of_line(line).unwrap());
        assert_eq!(next().as_deref(), Some(&[7][..]), "a number in MessagePack");
        assert_eq!(next().as_deref(), Some(&b"\xff\xfe\x00"[..]));
        assert_eq!(next().as_deref(), Some(&b"last"[..]));
        assert_eq!(next(), None);
    }

    fn sent(given: &str) -> String {
        match Sends::of(Some(given), None).unwrap() {
            Sends::Packet(payload) => payload_line(&payload),
            other => panic!("{given} is {other:?}"),
        }
    }

    #[test]
    fn payload_is_a_packet_a_value_or_a_text() {
        assert_eq!(sent(r#"{"format": "i64 str", "values": [3, "a"]}"#), r#"i64 3  str "a""#);
        assert_eq!(sent("[1, 2]"), "[1,2]");
        assert_eq!(sent("hello"), "hello");
        assert_eq!(Sends::of(Some("-"), None).unwrap(), Sends::Lines);
        assert_eq!(Sends::of(None, None).unwrap(), Sends::Nothing);
        let every = Some(Duration::from_secs(1));
        assert_eq!(Sends::of(None, every).unwrap(), Sends::Packet(Bytes::new()), "a beat");
        let refused = Sends::of(Some(r#"{"format": "i64", "values": ["a"]}"#), None).unwrap_err().to_string();
        assert!(refused.starts_with("--send ") && refused.contains("not of type i64"), "{refused}");
        assert!(Sends::of(Some("@/nowhere/at/all"), None).unwrap_err().to_string().contains("@FILE"));
    }
}

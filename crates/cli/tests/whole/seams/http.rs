//! Calls and streams over HTTP.

use super::bed::Bed;
use super::streams::{EVERY, Mode, Sender, Wave};
use super::ways::{Answer, DEADLINE, Use, account_of};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// Asks a gateway, and returns the lines of JSON in the answer's body.
fn ask(gateway: &str, head: &str) -> impl Iterator<Item = Value> {
    let mut stream = TcpStream::connect(gateway).expect("it listens");
    stream
        .write_all(format!("{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes())
        .expect("sent");
    // Lines between those of JSON are those of HTTP.
    BufReader::new(stream).lines().map_while(Result::ok).filter_map(|line| {
        let is_json = line.starts_with('{');
        is_json.then(|| serde_json::from_str(&line).expect("JSON"))
    })
}

pub(crate) fn call(bed: &Bed, asked: Use) -> Answer {
    let each = if asked == Use::Each { "&each" } else { "" };
    let (deadline, slices) = (DEADLINE.as_secs(), asked.slices());
    let path = format!("/v1/call/numbers/run?deadline={deadline}s&min_coverage=0&slices={slices}{each}");
    let head = format!("POST {path} HTTP/1.1\r\naccept: application/json");
    account_of(&ask(&bed.gateway, &head).collect::<Vec<_>>())
}

/// Reads a stream until nobody takes its waves.
pub(crate) fn stream(gateway: &str, mode: &Mode, waves: &Sender) {
    let (every, sync) = (EVERY.as_millis(), mode.sync());
    let path = format!("/v1/streams/echo?filter=count&send=%22x%22&every={every}ms&sync={sync}");
    let head = format!("GET {path} HTTP/1.1\r\naccept: application/x-ndjson");
    for line in ask(gateway, &head) {
        if let Some(wave) = line.get("wave")
            && waves.send(Wave::of_json(wave)).is_err()
        {
            return;
        }
    }
}

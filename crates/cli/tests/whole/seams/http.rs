//! Calls and streams over HTTP.

use super::bed::Bed;
use super::streams::{EVERY, Mode, Sender, Wave};
use super::ways::{Answer, DEADLINE, Use, account_of};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// Asks a listener, and returns the lines of JSON in the answer's body.
pub(crate) fn ask(addr: &str, head: &str, body: &str) -> impl Iterator<Item = Value> + use<> {
    let mut stream = TcpStream::connect(addr).expect("it listens");
    let more = format!("host: localhost\r\nconnection: close\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{head}\r\n{more}\r\n\r\n{body}").as_bytes()).expect("sent");
    // Lines between those of JSON are those of HTTP.
    BufReader::new(stream).lines().map_while(Result::ok).filter_map(|line| {
        let is_json = line.starts_with('{');
        is_json.then(|| serde_json::from_str(&line).expect("JSON"))
    })
}

pub(crate) fn call(bed: &Bed, asked: Use) -> Answer {
    let each = if asked == Use::Each { "&each" } else { "" };
    let (deadline, slices) = (DEADLINE.as_secs(), asked.slices());
    let (service, aggregation) = asked.kind();
    let path = format!("/v1/call/{service}/{aggregation}");
    let query = format!("deadline={deadline}s&min_coverage=0&slices={slices}{each}");
    let forms = "accept: application/json\r\ncontent-type: application/json";
    let head = format!("POST {path}?{query} HTTP/1.1\r\n{forms}");
    account_of(&ask(&bed.gateway, &head, asked.params()).collect::<Vec<_>>())
}

/// Reads a stream until nobody takes its waves.
pub(crate) fn stream(gateway: &str, mode: &Mode, waves: &Sender) {
    let (every, sync) = (EVERY.as_millis(), mode.sync());
    let path = format!("/v1/streams/echo?filter=count&send=%22x%22&every={every}ms&sync={sync}");
    let head = format!("GET {path} HTTP/1.1\r\naccept: application/x-ndjson");
    for line in ask(gateway, &head, "") {
        if let Some(wave) = line.get("wave")
            && waves.send(Wave::of_json(wave)).is_err()
        {
            return;
        }
    }
}

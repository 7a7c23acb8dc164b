//! A feed whose mirrors are the holders: its origin and its readers over every way go on through all faults.

use super::Expected;
use super::bed::{Bed, HOLDERS, VICTIM};
use super::http;
use super::streams::{PATIENCE, Program};
use super::ways::{Way, block_on};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;
use treefold_feed::follow::write_line;
use treefold_mirror::Name;

const EVENTS: u64 = 200;
const KEYS: u64 = 20;

/// Event `n` sets the field of key `n % KEYS` to `n`.
pub(crate) struct Feed {
    origin: Program,
    events: Option<ChildStdin>,
    written: u64,
    readers: Vec<Reader>,
}

impl Feed {
    pub(crate) fn start(bed: &Bed) -> Self {
        let words = ["mirror", "feed", "flights", "-", "--at", &bed.front, "--timeout", "10s"];
        let mut origin = bed.origin(&words).spawn().expect("it can be started");
        let events = origin.stdin.take();
        let mut feed = Self { origin: Program(origin), events, written: 0, readers: Vec::new() };
        feed.write();
        bed.wait_until("every mirror is current", || feed.current(bed) == HOLDERS as usize);
        let ways = [Way::Command, Way::Rust, Way::Http];
        feed.readers = ways.into_iter().map(|way| Reader::start(bed, way)).collect();
        feed
    }

    fn write(&mut self) {
        let events = self.events.as_mut().expect("a pipe");
        for _ in 0..EVENTS {
            self.written += 1;
            let (number, key) = (self.written, self.written % KEYS);
            let event = format!(
                r#"{{"stream":"s","number":{number},"key":"k{key}","type":"t","fields":{{"at":{number}}}}}"#
            );
            writeln!(events, "{event}").expect("it reads its input");
        }
        events.flush().expect("it reads its input");
    }

    /// The mirrors that are current and have all events.
    fn current(&self, bed: &Bed) -> usize {
        let status = status(bed);
        let mirrors = status["mirrors"].as_array().expect("a list").iter();
        mirrors.filter(|row| row["is_current"] == true && row["position"] == self.written).count()
    }

    /// Feeds events to the mirrors that are expected. Every reader gets every event.
    pub(crate) fn go_on(&mut self, bed: &Bed, under: &str, expected: &Expected) {
        self.write();
        let written = self.written;
        thread::scope(|scope| {
            for reader in &mut self.readers {
                scope.spawn(move || reader.read_to(written, &format!("{} {under}", bed.name)));
            }
        });
        let count = expected.contributors.len();
        bed.wait_until(&format!("{under}, {count} mirrors have all events"), || self.current(bed) == count);
        let status = status(bed);
        assert_eq!(status["origin"]["position"], written, "{} {under}: {status}", bed.name);
        if count < HOLDERS as usize {
            let absent = |row: &Value| row["mirror"] == VICTIM;
            assert!(status["missing"].as_array().expect("a list").iter().any(absent), "{status}");
        }
    }

    /// Without any mirror, the origin confirms nothing, no reader gets an event, and new ones are told.
    pub(crate) fn lives_without_mirrors(mut self, bed: &Bed) {
        self.write();
        self.events = None;
        let ended = self.origin.0.wait().expect("it ends").code();
        assert_eq!(ended, Some(4), "{}: no mirror has the last events", bed.name);
        for reader in &self.readers {
            let is_event = |line: &Value| line.get("event").is_some();
            assert!(!reader.lines.try_iter().any(|line| is_event(&line)), "{}: {}", bed.name, reader.name);
        }
        let watch = ["mirror", "watch", "flights", "--at", &bed.front, "--timeout", "1s"];
        let watched = bed.command(&watch).output().expect("it can be started").status.code();
        assert_eq!(watched, Some(4), "{}: there is no mirror to watch", bed.name);
    }
}

fn status(bed: &Bed) -> Value {
    let printed = bed.run(&["mirror", "status", "flights", "--at", &bed.front, "-o", "json"]);
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error} in {printed:?}"))
}

/// A reader of all keys, and the state that it has been told.
struct Reader {
    name: String,
    lines: Receiver<Value>,
    state: BTreeMap<String, u64>,
    position: u64,
    _program: Option<Program>,
}

impl Reader {
    fn start(bed: &Bed, way: Way) -> Self {
        let (sender, lines) = channel();
        let mut program = None;
        match way {
            Way::Command => {
                let words = ["mirror", "watch", "flights", "--at", &bed.front, "-o", "json"];
                let mut watch = bed.command(&words).spawn().expect("it can be started");
                let lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
                let mut lines = lines.map_while(Result::ok);
                program = Some(Program(watch));
                thread::spawn(move || lines.try_for_each(|line| sender.send(json(&line))));
            }
            Way::Http => {
                // A mirror that outlives the victim.
                let status = status(bed);
                let at = status["mirrors"][0]["http"].as_str().unwrap_or_else(|| panic!("{status}"));
                let head = "GET /v1/feeds/flights/events HTTP/1.1\r\naccept: application/x-ndjson";
                let mut lines = http::ask(at, head, "");
                thread::spawn(move || lines.try_for_each(|line| sender.send(line)));
            }
            Way::Rust => {
                let client = block_on(bed.client());
                thread::spawn(move || {
                    block_on(async {
                        let feed = Name::new("flights").expect("a name");
                        let mut reader = treefold_feed::Reader::connect(&client, "flights")
                            .start()
                            .await
                            .expect("it starts");
                        while let Ok(update) = reader.next().await {
                            let mut line = Vec::new();
                            write_line(&update, &feed, &mut line);
                            if sender.send(json(&String::from_utf8_lossy(&line))).is_err() {
                                return;
                            }
                        }
                    });
                });
            }
            Way::C | Way::Grpc => panic!("invariant: mirrors have no readers over {way:?}"),
        }
        let name = format!("the reader over {way:?}");
        Self { name, lines, state: BTreeMap::new(), position: 0, _program: program }
    }

    /// Reads up to this event, and compares the state with that of the feed.
    fn read_to(&mut self, last: u64, at: &str) {
        let until = Instant::now() + PATIENCE;
        while self.position < last {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| {
                panic!("{at}: {} stays at {} of {last}: {error}", self.name, self.position)
            });
            self.take(&line, at);
        }
        let state = (last + 1 - KEYS..=last).map(|number| (format!("k{}", number % KEYS), number)).collect();
        assert_eq!(self.state, state, "{at}: {}", self.name);
    }

    fn take(&mut self, line: &Value, at: &str) {
        let mut set = |value: &Value| {
            let key = value["key"].as_str().expect("a key").to_owned();
            self.state.insert(key, value["fields"]["at"].as_u64().expect("a number"));
        };
        if line.get("begins").is_some() {
            self.state.clear();
        } else if let Some(row) = line.get("row") {
            set(row);
        } else if let Some(event) = line.get("event") {
            set(event);
            let position = event["position"].as_u64().expect("a number");
            assert_eq!(position, self.position + 1, "{at}: {} missed an event", self.name);
            self.position = position;
        } else if let Some(complete) = line.get("complete") {
            // As in `flights=1.200;s=200`.
            let time = complete["at"].as_str().expect("a time");
            let position = time.split([';', '.']).nth(1).and_then(|position| position.parse().ok());
            self.position = position.unwrap_or_else(|| panic!("{line}"));
        }
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
}

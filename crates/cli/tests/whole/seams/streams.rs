//! Streams over every way, which go on while processes have faults.

use super::bed::Bed;
use super::ways::{Way, block_on};
use super::{Expected, c, grpc, http};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use treefold::operators::Raw;
use treefold::operators::packet::Packet;
use treefold::{Client, PartitionSet, StreamEvent, Synchronisation};

pub(crate) const EVERY: Duration = Duration::from_millis(250);
pub(crate) const TIME_OUT: Duration = Duration::from_millis(200);
/// Longer than any change takes to be seen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A row for the operator.
const ROW: &str = "a-row-of-16bytes";

/// How waves are completed, or folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    All,
    Timed,
    Single,
    /// By the filter of this name, which was sent to the cluster.
    Operator(String),
}

impl Mode {
    pub(crate) fn sync(&self) -> String {
        match self {
            Self::All | Self::Operator(_) => "wait-for-all".to_owned(),
            Self::Timed => format!("time-out:{}", TIME_OUT.as_millis()),
            Self::Single => "do-not-wait".to_owned(),
        }
    }

    fn synchronisation(&self) -> Synchronisation {
        match self {
            Self::All | Self::Operator(_) => Synchronisation::WaitForAll,
            Self::Timed => Synchronisation::TimeOut(TIME_OUT),
            Self::Single => Synchronisation::DoNotWait,
        }
    }
}

/// A wave's endpoints.
#[derive(Debug)]
pub(crate) struct Wave {
    contributors: PartitionSet,
    missing: Vec<(u32, String)>,
}

impl Wave {
    /// Of a wave whose packets count `counted` contributors.
    pub(crate) fn new(contributors: PartitionSet, missing: Vec<(u32, String)>, counted: usize) -> Self {
        assert_eq!(contributors.len(), counted, "the fold is that of {contributors}");
        Self { contributors, missing }
    }

    pub(crate) fn of_json(wave: &Value) -> Self {
        let lost = |loss: &Value| {
            let reason = loss["reason"].as_str().expect("a reason").to_owned();
            (loss["partition"].as_u64().expect("a number") as u32, reason)
        };
        let missing = wave["missing"].as_array().expect("a list").iter().map(lost).collect();
        let counted =
            wave["packets"].as_array().expect("a list").iter().map(|packet| match packet["text"].as_str() {
                Some(rows) => rows.len() / ROW.len(),
                None => packet["values"][0].as_u64().expect("a number") as usize,
            });
        Self::new(set(wave["contributors"].as_str().expect("a text")), missing, counted.sum())
    }
}

/// Endpoints as in `0-1,3`.
pub(crate) fn set(text: &str) -> PartitionSet {
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let ids = |run: &str| {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        number(first)..=number(last)
    };
    text.split(',').filter(|run| !run.is_empty()).flat_map(ids).collect()
}

/// The number of contributors that folded packets have counted.
pub(crate) fn counted<'a>(packets: impl IntoIterator<Item = &'a bytes::Bytes>) -> usize {
    let count = |bytes: &bytes::Bytes| Packet::read(bytes).and_then(|packet| packet.u64(0)).expect("a count");
    packets.into_iter().map(count).sum::<u64>() as usize
}

pub(crate) type Sender = mpsc::Sender<Wave>;

/// An open stream. It ends when this is dropped.
pub(crate) struct Running {
    name: String,
    mode: Mode,
    waves: Receiver<Wave>,
    program: Option<Program>,
}

/// A running command, killed when dropped.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Opens a stream. None if the way has no such streams.
    pub(crate) fn open(way: Way, mode: &Mode, bed: &Bed) -> Option<Self> {
        let is_operator = matches!(mode, Mode::Operator(_));
        if way == Way::C && !bed.takes_c() || is_operator && matches!(way, Way::C | Way::Http | Way::Grpc) {
            return None;
        }
        let (sender, waves) = mpsc::channel();
        let gateway = bed.gateway.clone();
        let name = format!("{mode:?} over {way:?}");
        let mut running = Self { name, mode: mode.clone(), waves, program: None };
        let mode = mode.clone();
        match way {
            Way::Command => running.program = Some(by_command(bed, &mode, sender)),
            Way::Rust => {
                let client = block_on(bed.client());
                thread::spawn(move || block_on(by_rust(client, &mode, &sender)));
            }
            Way::C => c::stream(bed, &mode, sender),
            Way::Http => drop(thread::spawn(move || http::stream(&gateway, &mode, &sender))),
            Way::Grpc => drop(thread::spawn(move || block_on(grpc::stream(&gateway, &mode, &sender)))),
        }
        Some(running)
    }

    /// The next wave; none if it does not come in time.
    fn next(&self, until: Instant) -> Option<Wave> {
        match self.waves.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(wave) => Some(wave),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("{} has ended", self.name),
        }
    }

    /// Reads until a wave has these contributors, or, where each packet is a wave, until those of two seconds have.
    pub(crate) fn read_until(&mut self, under: &str, expected: &Expected) {
        // Waves that have come by now say nothing of the present fault. Others are still on their way.
        self.waves.try_iter().for_each(drop);
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        if self.mode == Mode::Single {
            return self.read_single_until(under, expected, until);
        }
        while let Some(wave) = self.next(until) {
            let lost: PartitionSet = wave.missing.iter().map(|(id, _)| *id).collect();
            let mut whole = expected.contributors.clone();
            whole.union_with(&lost);
            let is_known = |(_, reason): &(u32, String)| expected.reasons.contains(&reason.as_str());
            if wave.contributors == expected.contributors
                && whole == PartitionSet::first(super::bed::HOLDERS)
                && wave.missing.iter().all(is_known)
            {
                return;
            }
            seen.push(wave);
        }
        let last = seen.iter().rev().take(5).collect::<Vec<_>>();
        panic!(
            "{}, {under}: no wave of {}, in {} waves: {last:?}",
            self.name,
            expected.contributors,
            seen.len()
        );
    }

    fn read_single_until(&self, under: &str, expected: &Expected, until: Instant) {
        let mut last = PartitionSet::new();
        while Instant::now() < until {
            let pause = Instant::now() + Duration::from_secs(2);
            last = PartitionSet::new();
            while let Some(wave) = self.next(pause) {
                last.union_with(&wave.contributors);
            }
            if last == expected.contributors {
                return;
            }
        }
        panic!("{}, {under}: waves of {last}, and not of {}", self.name, expected.contributors);
    }

    /// Asserts that it neither ends nor has waves of anybody.
    pub(crate) fn lives_without_endpoints(&mut self, place: &str) {
        let until = Instant::now() + PATIENCE;
        let silence = Duration::from_secs(2);
        let mut last_at = Instant::now();
        while last_at.elapsed() < silence {
            assert!(Instant::now() < until, "{place}: {} has waves of nodes that are dead", self.name);
            if let Some(wave) = self.next(Instant::now() + silence)
                && !wave.contributors.is_empty()
            {
                last_at = Instant::now();
            }
        }
    }
}

fn by_command(bed: &Bed, mode: &Mode, waves: Sender) -> Program {
    let (every, sync) = (format!("{}ms", EVERY.as_millis()), mode.sync());
    let mut words =
        vec!["stream", "echo", "--at", &bed.front, "-o", "json", "--every", &every, "--sync", &sync];
    match mode {
        Mode::Operator(filter) => {
            words.extend(["--filter", filter, "--filter-params", "hex:0a000000", "--send", ROW]);
        }
        _ => words.extend(["--filter", "count", "--send", "x"]),
    }
    let mut program = bed.command(&words).spawn().expect("it can be started");
    let lines = BufReader::new(program.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    thread::spawn(move || {
        for line in lines {
            let wave = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"));
            if waves.send(Wave::of_json(&wave)).is_err() {
                return;
            }
        }
    });
    Program(program)
}

async fn by_rust(client: Client, mode: &Mode, waves: &Sender) {
    let opening = client.stream("echo").synchronisation(mode.synchronisation());
    let (opening, payload) = match mode {
        Mode::Operator(filter) => {
            let params = Raw(10_u32.to_le_bytes().to_vec().into());
            (opening.up_filter(filter.as_str()).filter_params(&params), ROW)
        }
        _ => (opening.up_filter("count"), "x"),
    };
    let mut stream = opening.open().await.expect("it opens");
    let sender = stream.sender();
    let send = async {
        loop {
            sender.send(payload.into()).await.expect("it is open");
            tokio::time::sleep(EVERY).await;
        }
    };
    let read = async {
        loop {
            let StreamEvent::Wave(wave) = stream.next().await.expect("it is open") else { continue };
            let counted = match mode {
                Mode::Operator(_) => wave.packets.iter().map(|rows| rows.len() / ROW.len()).sum(),
                _ => counted(&wave.packets),
            };
            let missing = wave
                .missing
                .iter()
                .flat_map(|lost| lost.partitions.iter().map(|id| (id, lost.reason.name().to_owned())));
            if waves.send(Wave::new(wave.contributors, missing.collect(), counted)).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = send => {}
        () = read => {}
    }
}

//! An intake that records events. It numbers and refuses them as an origin does, because it has one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use treefold_core::time::Instant;
use treefold_feed::{Acknowledged, OfferError};
use treefold_mirror::origin::{Numbers, Origin, Refusal};
use treefold_mirror::rules::RuleFile;
use treefold_mirror::select::Functions;
use treefold_mirror::{Cut, Event, MirrorLimits, Name};
use treefold_sources::{Feeder, Intake, SourceLimits, Stopper, Tally};

const LOOKS_MAX: u32 = 3_000;

/// Returns once `is_so` returns true; panics after a number of looks.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still not so: {what}");
}

pub struct Recorder {
    origin: Mutex<Origin>,
    events: Mutex<Vec<Event>>,
    /// The number of each stream's last event.
    last: Mutex<BTreeMap<Name, u64>>,
    acknowledged: watch::Sender<Acknowledged>,
    pub is_busy: AtomicBool,
    /// End, as an origin whose stream is over: it has the events of the last batch, and does not answer.
    pub has_ended: AtomicBool,
    /// Acknowledge each event that is taken.
    pub is_prompt: AtomicBool,
}

impl Recorder {
    fn new() -> Self {
        let (cut, rules) = (Cut { epoch: 1, position: 0 }, Arc::new(RuleFile::default()));
        let origin = Origin::new(cut, rules, Functions::new(), MirrorLimits::DEFAULT, 1).unwrap();
        Self {
            origin: Mutex::new(origin),
            events: Mutex::default(),
            last: Mutex::default(),
            acknowledged: watch::channel(Acknowledged::default()).0,
            is_busy: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            is_prompt: AtomicBool::new(true),
        }
    }

    /// The numbers of a stream's events, as they were taken.
    pub fn numbers(&self, stream: &str) -> Vec<u64> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|event| event.stream.as_str() == stream).map(|event| event.number).collect()
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// Acknowledges events of streams up to these numbers.
    pub fn acknowledge(&self, numbers: &[(&str, u64)]) {
        let name = |text: &str| Name::new(text.to_owned()).unwrap();
        self.acknowledged.send_replace(numbers.iter().map(|&(text, number)| (name(text), number)).collect());
    }

    fn take(&self, events: &mut VecDeque<Event>, numbers: Numbers) -> Result<(), Refusal> {
        while let Some(event) = events.front() {
            if self.is_busy.load(Ordering::Relaxed) {
                return Err(Refusal::Busy { queue: "ready", bytes: 2, limit: 1 });
            }
            let mut origin = self.origin.lock().unwrap();
            origin.offer_numbered(Instant::START, event.clone(), numbers)?;
            // Nothing waits to be sent, so the origin never becomes busy by itself.
            while origin.poll_packet(Instant::START, 0).is_some() {}
            let mut event = event.clone();
            if numbers == Numbers::Received {
                event.number = origin.decided(&event.stream).unwrap();
            }
            self.last.lock().unwrap().insert(event.stream.clone(), event.number);
            self.events.lock().unwrap().push(event);
            events.pop_front();
        }
        Ok(())
    }

    fn acknowledge_all(&self) {
        let last = self.last.lock().unwrap();
        self.acknowledged.send_replace(last.iter().map(|(name, number)| (name.clone(), *number)).collect());
    }
}

impl Intake for Recorder {
    async fn offer_all(&self, events: &mut VecDeque<Event>, numbers: Numbers) -> Result<(), OfferError> {
        if self.has_ended.load(Ordering::Relaxed) {
            events.clear();
            return Err(OfferError::Ended);
        }
        let offered = self.take(events, numbers);
        if self.is_prompt.load(Ordering::Relaxed) {
            self.acknowledge_all();
        }
        Ok(offered?)
    }

    fn acknowledged(&self) -> watch::Receiver<Acknowledged> {
        self.acknowledged.subscribe()
    }

    async fn held_by(&self, _stream: &Name, _number: u64) -> Option<String> {
        None
    }
}

/// A way to a recorder.
pub fn feeder(limits: SourceLimits) -> (Feeder<Recorder>, Stopper) {
    let (stopper, stop) = Stopper::new();
    let feeder = Feeder {
        intake: Arc::new(Recorder::new()),
        stop,
        tally: Arc::new(Tally::default()),
        stream: None,
        limits: Arc::new(limits),
    };
    (feeder, stopper)
}

/// A line with an event.
pub fn line(stream: &str, number: u64) -> String {
    let key = number % 100;
    format!(
        r#"{{"stream":"{stream}","number":{number},"key":"DL{key}","type":"position","fields":{{"at":{number}}}}}"#
    )
}

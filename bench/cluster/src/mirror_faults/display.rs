//! The view of a display: the lines of `treefold mirror watch -o json`, checked one by one.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The view of one display, over all processes that it has had.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<View>>);

#[derive(Debug, Default)]
struct View {
    /// The number of each key's last event.
    rows: BTreeMap<String, u64>,
    /// The epoch and position of the last event; `None` while a snapshot is read.
    place: Option<(u64, u64)>,
    events: u64,
    moved: u64,
    snapshots: u64,
    problems: Vec<String>,
}

impl Seen {
    /// Takes a line of the command.
    pub(super) fn take(&self, line: &str) {
        let mut view = self.lock();
        if let Err(problem) = view.take(line) {
            view.problems.push(format!("{problem}: {line}"));
        }
    }

    /// The vector time from which the next process resumes.
    pub(super) fn from(&self) -> Option<String> {
        self.lock().place.map(|(epoch, position)| format!("flights={epoch}.{position}"))
    }

    /// The first key whose last value this display has not seen.
    pub(super) fn lacks(&self, last: &BTreeMap<String, u64>) -> Option<String> {
        let view = self.lock();
        let (key, number) = last.iter().find(|(key, number)| view.rows.get(*key) != Some(number))?;
        Some(format!("it has {:?} of {key}, not {number}", view.rows.get(key)))
    }

    /// Takes the problems found so far.
    pub(super) fn problems(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().problems)
    }

    pub(super) fn events(&self) -> u64 {
        self.lock().events
    }

    pub(super) fn moved(&self) -> u64 {
        self.lock().moved
    }

    /// Snapshots after the first one.
    pub(super) fn snapshots(&self) -> u64 {
        self.lock().snapshots.saturating_sub(1)
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl View {
    fn take(&mut self, line: &str) -> Result<(), String> {
        let update: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (name, body) = update.as_object().and_then(|one| one.iter().next()).ok_or("not an update")?;
        match name.as_str() {
            "begins" => {
                self.snapshots += 1;
                self.place = None;
                self.rows.clear();
            }
            "row" => _ = self.rows.insert(text(&body["key"])?, number(&body["fields"]["n"])?),
            "complete" | "reached" => {
                let reached = place(body["at"].as_str().unwrap_or_default())?;
                if self.place.is_some_and(|(_, position)| position > reached.1) {
                    return Err(format!("the place goes back from {:?}", self.place));
                }
                self.place = Some(reached);
            }
            "event" => self.take_event(body)?,
            "moved" => self.moved += 1,
            "ended" => {}
            _ => return Err("an unexpected update".to_owned()),
        }
        Ok(())
    }

    fn take_event(&mut self, event: &Value) -> Result<(), String> {
        let (_, last) = self.place.ok_or("an event before its snapshot")?;
        let (at, key) = ((number(&event["epoch"])?, number(&event["position"])?), text(&event["key"])?);
        if at.1 != last + 1 {
            return Err(format!("the event after position {last} is {}", at.1));
        }
        let given = number(&event["fields"]["n"])?;
        if let Some(known) = self.rows.insert(key, given).filter(|&known| known >= given) {
            return Err(format!("the key's last event was {known}"));
        }
        self.place = Some(at);
        self.events += 1;
        Ok(())
    }
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "no text".to_owned())
}

fn number(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| "no number".to_owned())
}

/// The epoch and position of a vector time.
fn place(time: &str) -> Result<(u64, u64), String> {
    let cut = time.split(';').next().and_then(|feeds| feeds.split_once('=')).map(|(_, cut)| cut);
    let numbers = cut.and_then(|cut| cut.split_once('.'));
    let numbers = numbers.and_then(|(epoch, position)| Some((epoch.parse().ok()?, position.parse().ok()?)));
    numbers.ok_or_else(|| format!("no vector time: {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_repetitions_and_reordered_events_are_found() {
        let event = |position: u64, number: u64| {
            format!(r#"{{"event":{{"epoch":1,"position":{position},"key":"k","fields":{{"n":{number}}}}}}}"#)
        };
        let seen = Seen::default();
        for line in [
            r#"{"begins":{"at":"flights=1.3"}}"#,
            r#"{"row":{"key":"k","fields":{"n":5}}}"#,
            r#"{"complete":{"at":"flights=1.3;s0=5"}}"#,
            &event(4, 6),
            r#"{"reached":{"at":"flights=2.5"}}"#,
            &event(6, 7),
        ] {
            seen.take(line);
        }
        assert_eq!(seen.problems(), [""; 0]);
        assert_eq!((seen.events(), seen.snapshots(), seen.from()), (2, 0, Some("flights=1.6".to_owned())));
        assert_eq!(seen.lacks(&BTreeMap::from([("k".to_owned(), 7)])), None);
        assert!(seen.lacks(&BTreeMap::from([("k".to_owned(), 8)])).is_some());
        for wrong in [event(6, 8), event(8, 8), event(7, 7), "garbage".to_owned()] {
            seen.take(&wrong);
            assert_eq!(seen.problems().len(), 1, "{wrong}");
        }
    }
}

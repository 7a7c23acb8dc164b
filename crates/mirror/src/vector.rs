//! Vector time: how far each incoming stream has come.
//!
//! The paper stamps every event with a vector that has a component for each incoming stream (mirroring §3.3).
//! Rules suppress, combine and delay events, so stream numbers alone cannot name a place in what an origin
//! *sends*: an event that was held back goes out after younger events of the same stream. Therefore an origin
//! also counts the events that it mirrors, and this count is one more component of the vector. The mirrored
//! events of one feed are a total order, and a [`Cut`] is a place in it. A vector time has a cut for each
//! feed, which resumes a reader, and the streams' numbers, which tell how recent the data is.
//!
//! A cut also names its *epoch*: each new origin of a feed begins one. Two cuts of different epochs may name
//! different events at the same position, because an origin that died may have sent events that no surviving
//! mirror has received.

use crate::event::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A place in the mirrored events of a feed: after the event at `position`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cut {
    /// Counts the feed's origins, from 1.
    pub epoch: u32,
    /// Counts the feed's mirrored events, from 1; 0 is before the first.
    pub position: u64,
}

/// The greatest position. A packet or a message beyond it is refused, so positions can be counted on without overflow.
pub const POSITION_MAX: u64 = 1 << 62;

/// Most earlier epochs that a [`Lineage`] remembers. A mirror or reader of an older one takes a snapshot.
pub const EPOCHS_MAX: usize = 64;

/// The epochs that a feed continues: each with its last position that the next epoch has kept.
///
/// An event up to this position has the same position in all later epochs. A mirror or a reader that has seen
/// nothing beyond it goes on in the new epoch as if nothing had happened. Events beyond it are not part of the feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Lineage(Vec<Cut>);

impl Lineage {
    /// Takes the ends of earlier epochs, in ascending order. `None` if the order is another one.
    pub fn new(ends: Vec<Cut>) -> Option<Self> {
        let ascends = |pair: &[Cut]| pair[0].epoch < pair[1].epoch && pair[0].position <= pair[1].position;
        ends.windows(2).all(ascends).then_some(Self(ends)).filter(|lineage| lineage.0.len() <= EPOCHS_MAX)
    }

    /// The ends of earlier epochs, in ascending order.
    pub fn ends(&self) -> &[Cut] {
        &self.0
    }

    /// Adds the end of the last epoch.
    #[must_use]
    pub fn ended(mut self, end: Cut) -> Self {
        self.0.push(end);
        let excess = self.0.len().saturating_sub(EPOCHS_MAX);
        self.0.drain(..excess);
        self
    }

    /// True if all events up to `cut` are also the first ones of `epoch`, whose lineage this is.
    pub fn has(&self, cut: Cut, epoch: u32) -> bool {
        let is_kept = |end: &Cut| end.epoch == cut.epoch && cut.position <= end.position;
        cut.position == 0 || cut.epoch == epoch || self.0.iter().any(is_kept)
    }
}

/// The name of a feed or stream, with how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component<T> {
    /// The feed or the stream.
    pub name: Name,
    /// Its progress.
    pub at: T,
}

/// How far each feed, and each incoming stream, has come. Its text form is `flights=2.6044;airline=77,faa=5012`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorTime {
    feeds: Vec<Component<Cut>>,
    streams: Vec<Component<u64>>,
}

impl VectorTime {
    /// Sets the cut of a feed.
    pub fn set_feed(&mut self, name: Name, cut: Cut) {
        set(&mut self.feeds, name, cut);
    }

    /// Sets the number of a stream's last event that is decided: mirrored, or suppressed for good.
    pub fn set_stream(&mut self, name: Name, number: u64) {
        set(&mut self.streams, name, number);
    }

    /// The cut of a feed.
    pub fn feed(&self, name: &str) -> Option<Cut> {
        at(&self.feeds, name)
    }

    /// The number of a stream's last decided event.
    pub fn stream(&self, name: &str) -> Option<u64> {
        at(&self.streams, name)
    }

    /// The feeds, by name.
    pub fn feeds(&self) -> &[Component<Cut>] {
        &self.feeds
    }

    /// The streams, by name.
    pub fn streams(&self) -> &[Component<u64>] {
        &self.streams
    }

    /// True if every component of `other` is known here, and not greater than here.
    pub fn covers(&self, other: &Self) -> bool {
        other.feeds.iter().all(|one| self.feed(&one.name).is_some_and(|at| at >= one.at))
            && other.streams.iter().all(|one| self.stream(&one.name).is_some_and(|at| at >= one.at))
    }
}

fn set<T>(components: &mut Vec<Component<T>>, name: Name, at: T) {
    match components.binary_search_by(|known| known.name.cmp(&name)) {
        Ok(known) => components[known].at = at,
        Err(place) => components.insert(place, Component { name, at }),
    }
}

fn at<T: Copy>(components: &[Component<T>], name: &str) -> Option<T> {
    let found = components.binary_search_by(|known| known.name.as_str().cmp(name));
    found.ok().map(|known| components[known].at)
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.position)
    }
}

impl fmt::Display for VectorTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_all(f, &self.feeds)?;
        if !self.streams.is_empty() {
            f.write_str(";")?;
            write_all(f, &self.streams)?;
        }
        Ok(())
    }
}

fn write_all<T: fmt::Display>(f: &mut fmt::Formatter<'_>, components: &[Component<T>]) -> fmt::Result {
    for (index, component) in components.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{}={}", component.name, component.at)?;
    }
    Ok(())
}

/// A text that is not a vector time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is not a part of a vector time; expected FEED=EPOCH.POSITION,…[;STREAM=NUMBER,…]")]
pub struct VectorTimeError {
    /// The first part that could not be read.
    pub part: String,
}

impl FromStr for VectorTime {
    type Err = VectorTimeError;

    fn from_str(text: &str) -> Result<Self, VectorTimeError> {
        let (feeds, streams) = text.split_once(';').unwrap_or((text, ""));
        let mut time = Self::default();
        for part in feeds.split(',') {
            let read = || {
                let (name, cut) = part.split_once('=')?;
                let (epoch, position) = cut.split_once('.')?;
                let cut = Cut { epoch: epoch.parse().ok()?, position: position.parse().ok()? };
                Some((Name::new(name).ok()?, cut))
            };
            let (name, cut) = read().ok_or_else(|| VectorTimeError { part: part.to_owned() })?;
            time.set_feed(name, cut);
        }
        for part in streams.split(',').filter(|part| !part.is_empty()) {
            let read = || {
                let (name, number) = part.split_once('=')?;
                Some((Name::new(name).ok()?, number.parse().ok()?))
            };
            let (name, number) = read().ok_or_else(|| VectorTimeError { part: part.to_owned() })?;
            time.set_stream(name, number);
        }
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> VectorTime {
        text.parse().unwrap()
    }

    #[test]
    fn lineage_keeps_places_up_to_the_end_of_their_epoch() {
        let cut = |epoch, position| Cut { epoch, position };
        let lineage = Lineage::default().ended(cut(1, 10)).ended(cut(3, 25));
        for (given, is_kept) in [
            (cut(1, 10), true),
            (cut(1, 11), false),
            (cut(2, 5), false),
            (cut(3, 25), true),
            (cut(3, 26), false),
            (cut(4, 99), true),
            (cut(9, 0), true),
        ] {
            assert_eq!(lineage.has(given, 4), is_kept, "{given}");
        }
        assert_eq!(Lineage::new(lineage.ends().to_vec()), Some(lineage.clone()));
        assert_eq!(Lineage::new(vec![cut(2, 5), cut(2, 6)]), None);
        assert_eq!(Lineage::new(vec![cut(2, 5), cut(3, 4)]), None);
        let many = (1..=70).fold(Lineage::default(), |lineage, epoch| lineage.ended(cut(epoch, 1)));
        assert_eq!((many.ends().len(), many.ends()[0].epoch), (EPOCHS_MAX, 7));
    }

    #[test]
    fn text_form_is_read_back() {
        let text = "flights=2.6044,prices=1.7;airline=77,faa=5012";
        assert_eq!(time(text).to_string(), text);
        assert_eq!(time("prices=1.7,flights=2.6044;faa=5012,airline=77").to_string(), text, "sorted by name");
        assert_eq!(time("flights=2.6044").feed("flights"), Some(Cut { epoch: 2, position: 6044 }));
        assert_eq!(time(text).stream("faa"), Some(5012));
    }

    #[test]
    fn invalid_part_is_named() {
        for (text, part) in [
            ("", ""),
            ("flights", "flights"),
            ("flights=2", "flights=2"),
            ("flights=2.x", "flights=2.x"),
            ("flights=2.1;faa", "faa"),
            ("fl ights=2.1", "fl ights=2.1"),
            ("flights=99999999999.1", "flights=99999999999.1"),
        ] {
            assert_eq!(text.parse::<VectorTime>().unwrap_err().part, part);
        }
    }

    #[test]
    fn a_time_covers_times_that_no_component_is_ahead_in() {
        let now = time("flights=2.10;airline=7,faa=50");
        assert!(now.covers(&time("flights=2.9;faa=50")));
        assert!(now.covers(&time("flights=1.900")), "an earlier epoch is earlier");
        assert!(!now.covers(&time("flights=2.11")));
        assert!(!now.covers(&time("flights=2.9;airline=8,faa=1")));
        assert!(!now.covers(&time("prices=1.1")), "an unknown feed");
    }
}

//! The acknowledged events of an origin's incoming streams.

use treefold_mirror::Name;

/// For each incoming stream with acknowledged events, the number up to which all its events are acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged(Vec<(Name, u64)>);

impl Acknowledged {
    /// The number of a stream; `None` if none of its events is acknowledged.
    pub fn of(&self, stream: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| known.as_str() == stream).map(|(_, number)| *number)
    }

    /// The streams with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.0.iter().map(|(stream, number)| (stream, *number))
    }
}

impl FromIterator<(Name, u64)> for Acknowledged {
    fn from_iter<I: IntoIterator<Item = (Name, u64)>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

//! Filters: the part of a feed that a reader wants.
//!
//! A filter selects keys, by name or by prefix, and types of events.
//!
//! - **Keys divide the state.** The rows of the selected keys, and the events of these keys, make the same rows
//!   as the whole feed does. So a reader with a filter by key has the mirror's state, restricted to its keys.
//! - **Types do not.** A row is made by events of all types. A reader with a filter by type gets whole rows, and
//!   afterwards the events of its types only: fields that other types set stay as they were. Events that delete
//!   a key pass every filter by type, so that no row outlives its key.

use crate::event::{Event, Name, NameError};
use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Most keys of a filter.
pub const KEYS_MAX: usize = 1_000;
/// Most prefixes of a filter.
pub const PREFIXES_MAX: usize = 64;
/// Most types of a filter.
pub const TYPES_MAX: usize = 64;
/// Most bytes of a key or a prefix of a filter.
pub const KEY_BYTES_MAX: usize = 1_024;

/// The keys and types that a reader wants. Without keys and prefixes it wants every key, without types every type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Filter {
    keys: BTreeSet<ByteString>,
    prefixes: BTreeSet<ByteString>,
    types: BTreeSet<Name>,
}

/// A filter as it arrives, before it is checked.
#[derive(Deserialize)]
struct Parts {
    keys: Vec<ByteString>,
    prefixes: Vec<ByteString>,
    types: Vec<Name>,
}

/// The reason why a filter is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// There are too many of something.
    #[error("the filter has {given} {field}; allowed: {limit}")]
    TooMany {
        /// The part of the filter.
        field: &'static str,
        /// Their number.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// A key or a prefix is empty or too long.
    #[error("{field} has {given} bytes; allowed: 1 to {KEY_BYTES_MAX}")]
    Length {
        /// The part of the filter.
        field: &'static str,
        /// Its length.
        given: usize,
    },
    /// A type is not a name.
    #[error("type: {0}")]
    Type(#[from] NameError),
}

impl TryFrom<Parts> for Filter {
    type Error = FilterError;

    fn try_from(Parts { keys, prefixes, types }: Parts) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        keys.into_iter().try_for_each(|key| filter.add_key(key))?;
        prefixes.into_iter().try_for_each(|prefix| filter.add_prefix(prefix))?;
        types.into_iter().try_for_each(|kind| filter.add_type(kind))?;
        Ok(filter)
    }
}

impl Filter {
    /// Selects a key, beside those that are selected already.
    ///
    /// # Errors
    /// If the key is empty or too long, or the filter has too many keys. The filter has not changed.
    pub fn add_key(&mut self, key: impl Into<ByteString>) -> Result<(), FilterError> {
        add(&mut self.keys, key.into(), ("key", "keys"), KEYS_MAX)
    }

    /// Selects all keys with a prefix, beside those that are selected already.
    ///
    /// # Errors
    /// As [`add_key`](Self::add_key).
    pub fn add_prefix(&mut self, prefix: impl Into<ByteString>) -> Result<(), FilterError> {
        add(&mut self.prefixes, prefix.into(), ("prefix", "prefixes"), PREFIXES_MAX)
    }

    /// Selects the events of a type, beside those of the types that are selected already.
    ///
    /// # Errors
    /// If the filter has too many types. The filter has not changed.
    pub fn add_type(&mut self, kind: Name) -> Result<(), FilterError> {
        room(self.types.len(), "types", TYPES_MAX)?;
        self.types.insert(kind);
        Ok(())
    }

    /// True if the filter selects everything.
    pub fn is_whole(&self) -> bool {
        self.keys.is_empty() && self.prefixes.is_empty() && self.types.is_empty()
    }

    /// The selected keys, if there are no other keys that the filter could select.
    pub fn only_keys(&self) -> Option<&BTreeSet<ByteString>> {
        (!self.keys.is_empty() && self.prefixes.is_empty()).then_some(&self.keys)
    }

    /// True if the filter selects a key.
    pub fn takes_key(&self, key: &str) -> bool {
        (self.keys.is_empty() && self.prefixes.is_empty())
            || self.keys.contains(key)
            || self.prefixes.iter().any(|prefix| key.starts_with(&**prefix))
    }

    /// True if the filter may select a key that is not below `first`, and below `end`. `None`: there is no end.
    pub fn may_take_between(&self, first: &str, end: Option<&str>) -> bool {
        if self.keys.is_empty() && self.prefixes.is_empty() {
            return true;
        }
        let is_below_end = |text: &str| end.is_none_or(|end| text < end);
        let next_key = self.keys.range::<str, _>((Bound::Included(first), Bound::Unbounded)).next();
        // The keys with a prefix follow each other, and the prefix would be the first of them.
        next_key.is_some_and(|key| is_below_end(key))
            || self
                .prefixes
                .iter()
                .any(|prefix| first.starts_with(&**prefix) || (&**prefix >= first && is_below_end(prefix)))
    }

    /// True if the filter selects an event. Events of types in `deletes` remove their key.
    pub fn takes(&self, event: &Event, deletes: &[Name]) -> bool {
        self.takes_key(&event.key) && self.takes_type(&event.kind, deletes)
    }

    /// True if the filter selects a type of events.
    pub fn takes_type(&self, kind: &Name, deletes: &[Name]) -> bool {
        self.types.is_empty() || self.types.contains(kind) || deletes.contains(kind)
    }
}

fn add(
    to: &mut BTreeSet<ByteString>,
    text: ByteString,
    (one, many): (&'static str, &'static str),
    limit: usize,
) -> Result<(), FilterError> {
    if text.is_empty() || text.len() > KEY_BYTES_MAX {
        return Err(FilterError::Length { field: one, given: text.len() });
    }
    room(to.len(), many, limit)?;
    to.insert(text);
    Ok(())
}

fn room(used: usize, field: &'static str, limit: usize) -> Result<(), FilterError> {
    if used < limit { Ok(()) } else { Err(FilterError::TooMany { field, given: used + 1, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MirrorLimits;

    fn event(key: &str, kind: &str) -> Event {
        let json = format!(r#"{{"stream":"s","number":1,"key":"{key}","type":"{kind}"}}"#);
        Event::from_json(&json, None, &MirrorLimits::DEFAULT).unwrap()
    }

    fn name(text: &str) -> Name {
        Name::new(text.to_owned()).unwrap()
    }

    #[test]
    fn keys_and_prefixes_add_up_and_types_restrict() {
        let mut filter = Filter::default();
        assert!(filter.is_whole() && filter.takes(&event("DL1", "position"), &[]));
        filter.add_key("DL1").unwrap();
        assert_eq!(filter.only_keys().map(BTreeSet::len), Some(1));
        filter.add_prefix("UA").unwrap();
        assert_eq!(filter.only_keys(), None);
        assert!(filter.takes_key("DL1") && filter.takes_key("UA77") && !filter.takes_key("DL12"));
        filter.add_type(name("status")).unwrap();
        assert!(filter.takes(&event("UA77", "status"), &[]));
        assert!(!filter.takes(&event("UA77", "position"), &[]));
        assert!(!filter.takes(&event("AA1", "status"), &[]));
        let deletes = [name("gone")];
        assert!(filter.takes(&event("UA77", "gone"), &deletes), "a deletion passes a filter by type");
        assert!(!filter.takes(&event("AA1", "gone"), &deletes), "and not one by key");
    }

    #[test]
    fn range_without_a_selected_key_is_known() {
        let mut filter = Filter::default();
        assert!(filter.may_take_between("a", Some("b")));
        filter.add_key("m").unwrap();
        filter.add_prefix("UA").unwrap();
        let may = |first, end| filter.may_take_between(first, end);
        assert!(may("a", Some("n")) && may("m", Some("n")) && may("a", None));
        assert!(!may("a", Some("m")) && !may("ma", None));
        assert!(
            may("T", Some("UA1")) && may("UA17", Some("UA2")) && may("UAz", None) && may("UA", Some("UA0"))
        );
        assert!(!may("T", Some("UA")) && !may("UB", Some("a")));
    }

    #[test]
    fn excessive_filters_are_refused_also_when_they_arrive() {
        let mut filter = Filter::default();
        assert_eq!(filter.add_key(""), Err(FilterError::Length { field: "key", given: 0 }));
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        assert!(matches!(filter.add_prefix(long), Err(FilterError::Length { field: "prefix", .. })));
        for key in 0..KEYS_MAX {
            filter.add_key(key.to_string()).unwrap();
        }
        let many = FilterError::TooMany { field: "keys", given: KEYS_MAX + 1, limit: KEYS_MAX };
        assert_eq!(filter.add_key("more"), Err(many));
        let packed = rmp_serde::to_vec_named(&filter).unwrap();
        assert_eq!(rmp_serde::from_slice::<Filter>(&packed).unwrap(), filter);
        filter.keys.insert("more".into());
        let packed = rmp_serde::to_vec_named(&filter).unwrap();
        let refused = rmp_serde::from_slice::<Filter>(&packed).unwrap_err().to_string();
        assert!(refused.contains("1001 keys; allowed: 1000"), "{refused}");
    }
}

//! The keyed state: the last value of each field of each key. It needs no code of an application.
//!
//! Keys are divided over shards by their hash. Freezing shares the shards; an event that changes a shared shard
//! copies that one shard first. So a snapshot of 100,000 keys holds up events for the copies of the shards
//! that change meanwhile, and never for the whole. The number of shards grows with the keys (linear hashing: Litwin,
//! VLDB 1980), one shard at a time, so that the copy of a shard stays short.
//!
//! A field that an event sets to nil is removed. An event of a type in `deletes` removes its key. With a
//! retention, a key that has not changed for that long, by the origin's clock, is removed with the next event.

mod row;

use self::row::{Row, put_row};
use crate::batch::{BatchError, number, part, text};
use crate::event::json::{body_to_json, fields_to_json};
use crate::event::{Event, EventRef};
use crate::fields::Fields;
use crate::limits::MirrorLimits;
use crate::rules::file::StateOptions;
use crate::state::{Frozen, Moment, State};
use bytes::Bytes;
use bytestring::ByteString;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Shards of an empty state.
const SHARDS_MIN: usize = 64;
/// Keys of a shard, on average, above which another shard is added.
const SHARD_KEYS: usize = 128;

/// The last values of all keys.
#[derive(Clone, Debug)]
pub struct KeyedState {
    shards: Vec<Arc<Shard>>,
    hasher: FixedState,
    options: StateOptions,
    keys: usize,
    keys_max: usize,
    refused: u64,
    /// With a retention: each key once, by a time at or before its last change.
    aging: BTreeSet<(u64, Box<str>)>,
}

type Shard = HashTable<Row>;

/// A key with its values, as a reader gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: ByteString,
    /// Its fields.
    pub fields: Fields,
    /// The last body that was not empty.
    pub body: Bytes,
    /// The last event that changed it.
    pub changed: Moment,
}

/// Key, fields, body (as text, or as base64), position and `sent_ms` of the last event that changed it.
impl serde::Serialize for KeyValue {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Shown<'a> {
            key: &'a str,
            #[serde(serialize_with = "fields_to_json")]
            fields: &'a Fields,
            #[serde(skip_serializing_if = "Option::is_none")]
            body: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            body_base64: Option<String>,
            position: u64,
            sent_ms: u64,
        }
        let (body, body_base64) = body_to_json(&self.body);
        let shown = Shown {
            key: &self.key,
            fields: &self.fields,
            body,
            body_base64,
            position: self.changed.position,
            sent_ms: self.changed.sent_ms,
        };
        shown.serialize(to)
    }
}

impl KeyedState {
    /// An empty state. `seed` hides from sources which keys share a slot of the table.
    pub fn new(options: StateOptions, limits: &MirrorLimits, seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        let shards = (0..SHARDS_MIN).map(|_| Arc::default()).collect();
        let keys_max = limits.state_keys_max;
        Self { shards, hasher, options, keys: 0, keys_max, refused: 0, aging: BTreeSet::new() }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys
    }

    /// True if there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Events of new keys that were not kept because of `state_keys_max`.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The values of a key.
    pub fn value(&self, key: &str) -> Option<KeyValue> {
        self.row(key).map(Row::shown)
    }

    /// Bytes of the values of a key. 0 if there is no such key.
    pub fn value_bytes(&self, key: &str) -> usize {
        self.row(key).map_or(0, Row::value_bytes)
    }

    /// All keys with their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = KeyValue> {
        self.shards.iter().flat_map(|shard| shard.iter().map(Row::shown))
    }

    fn row(&self, key: &str) -> Option<&Row> {
        let hash = self.hash(key.as_bytes());
        self.shards[shard_of(hash, self.shards.len())].find(hash, |row| row.key() == key.as_bytes())
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Adds a shard, which gets about half of the keys of the next shard in order.
    fn split(&mut self) {
        let new = self.shards.len();
        let from = new - (1 << new.ilog2());
        self.shards.push(Arc::default());
        let mut halves = [Shard::new(), Shard::new()];
        for row in Arc::unwrap_or_clone(std::mem::take(&mut self.shards[from])) {
            let hash = self.hash(row.key());
            let half = usize::from(shard_of(hash, new + 1) == new);
            halves[half].insert_unique(hash, row, |row| self.hash(row.key()));
        }
        [self.shards[from], self.shards[new]] = halves.map(Arc::new);
    }

    fn remove(&mut self, key: &str) {
        // Looked up first, because changing a shard that a snapshot shares copies it.
        if self.row(key).is_none() {
            return;
        }
        let hash = self.hash(key.as_bytes());
        let at = shard_of(hash, self.shards.len());
        let shard = Arc::make_mut(&mut self.shards[at]);
        if let Ok(found) = shard.find_entry(hash, |row| row.key() == key.as_bytes()) {
            let (row, _) = found.remove();
            self.keys -= 1;
            if self.options.retention_ms.is_some() {
                self.aging.remove(&(row.aged_ms, key.into()));
            }
        }
    }

    /// Adds the row of a key that is not there.
    fn insert(&mut self, key: &str, row: Row) {
        if self.options.retention_ms.is_some() {
            self.aging.insert((row.aged_ms, key.into()));
        }
        let (hash, hasher) = (self.hash(key.as_bytes()), &self.hasher);
        let at = shard_of(hash, self.shards.len());
        let shard = Arc::make_mut(&mut self.shards[at]);
        shard.insert_unique(hash, row, |row| hasher.hash_one(row.key()));
        self.keys += 1;
        if self.keys > self.shards.len() * SHARD_KEYS {
            self.split();
        }
    }

    /// Removes the keys that are older than the retention at this time of the origin's clock. A mirror does this with
    /// every event; a reader that does not get every event is told the time.
    pub fn advance(&mut self, now_ms: u64) {
        self.expire(now_ms);
    }

    /// Removes keys that are older than the retention. A key's place in `aging` is brought up to date only here.
    fn expire(&mut self, now_ms: u64) {
        let Some(retention_ms) = self.options.retention_ms else { return };
        let is_over = |since_ms: u64| since_ms.saturating_add(retention_ms) <= now_ms;
        while self.aging.first().is_some_and(|(since_ms, _)| is_over(*since_ms))
            && let Some((_, key)) = self.aging.pop_first()
        {
            let hash = self.hash(key.as_bytes());
            let at = shard_of(hash, self.shards.len());
            let shard = Arc::make_mut(&mut self.shards[at]);
            let found = shard.find_entry(hash, |row| row.key() == key.as_bytes());
            let mut found = found.expect("invariant: a key in `aging` is in its shard");
            let row = found.get_mut();
            if is_over(row.changed.sent_ms) {
                found.remove();
                self.keys -= 1;
            } else {
                row.aged_ms = row.changed.sent_ms;
                self.aging.insert((row.aged_ms, key));
            }
        }
    }

    /// Appends the rows of an encoded piece; see [`Frozen::encode`].
    ///
    /// # Errors
    /// If the bytes are not rows, or there are more keys than allowed. The state then has a part of the rows.
    pub fn restore(&mut self, piece: &Bytes) -> Result<(), RestoreError> {
        for row in rows(piece) {
            let KeyValue { key, fields, body, changed } = row?;
            if self.keys >= self.keys_max {
                return Err(RestoreError::Keys { limit: self.keys_max });
            }
            self.remove(&key);
            self.insert(&key, Row::new(&key, fields.as_bytes(), &body, changed));
        }
        Ok(())
    }
}

/// The shard of a key with this hash. The tables inside the shards use the upper and the lowest bits.
fn shard_of(hash: u64, shards: usize) -> usize {
    let hash = (hash >> 24) as u32 as usize;
    let all = shards.next_power_of_two();
    let shard = hash & (all - 1);
    if shard < shards { shard } else { hash & (all / 2 - 1) }
}

/// The rows of an encoded piece, which share its bytes; see [`Frozen::encode`]. The iteration ends after the
/// first error.
pub fn rows(piece: &Bytes) -> impl Iterator<Item = Result<KeyValue, BatchError>> {
    let mut rest = &piece[..];
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let row = take_row(piece, &mut rest);
        if row.is_err() {
            rest = &[];
        }
        Some(row)
    })
}

/// Reads the first row of `rest`, which is a part of `piece`.
fn take_row(piece: &Bytes, rest: &mut &[u8]) -> Result<KeyValue, BatchError> {
    Ok(KeyValue {
        key: text(piece, part(rest, "a key")?)?,
        changed: Moment { position: number(rest, "a row")?, sent_ms: number(rest, "a row")? },
        fields: Fields::checked(piece.slice_ref(part(rest, "fields")?)),
        body: piece.slice_ref(part(rest, "a body")?),
    })
}

/// The key of the first row of an encoded piece. `None` if there is none.
pub(crate) fn first_key(piece: &[u8]) -> Option<&str> {
    let mut rest = piece;
    part(&mut rest, "a key").ok().and_then(|key| std::str::from_utf8(key).ok())
}

impl KeyValue {
    /// Appends the row to a piece, for [`KeyedState::restore`].
    pub fn write(&self, piece: &mut Vec<u8>) {
        put_row(piece, self.key.as_bytes(), self.changed, self.fields.as_bytes(), &self.body);
    }
}

/// The reason why a snapshot cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are not rows.
    #[error("the snapshot is invalid: {0}")]
    Rows(#[from] BatchError),
    /// There are too many keys.
    #[error("the snapshot has more keys than state_keys_max allows: {limit}")]
    Keys {
        /// The limit.
        limit: usize,
    },
}

impl PartialEq for KeyedState {
    /// Compares keys and values.
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && self.iter().all(|one| other.value(&one.key).as_ref() == Some(&one))
    }
}

impl State for KeyedState {
    type Frozen = FrozenKeys;

    fn apply(&mut self, at: Moment, event: EventRef<'_>, _derived: &mut Vec<Event>) {
        self.expire(at.sent_ms);
        if self.options.deletes.iter().any(|kind| kind.as_str() == event.kind) {
            return self.remove(event.key);
        }
        let key = event.key.as_bytes();
        let hash = self.hash(key);
        let shard = shard_of(hash, self.shards.len());
        let shard = Arc::make_mut(&mut self.shards[shard]);
        if let Some(row) = shard.find_mut(hash, |row| row.key() == key) {
            return row.apply(at, &event);
        }
        if self.keys >= self.keys_max {
            self.refused += 1;
            return;
        }
        self.insert(event.key, Row::begun(at, &event));
    }

    fn freeze(&self) -> FrozenKeys {
        FrozenKeys { shards: self.shards.clone() }
    }
}

/// A frozen keyed state.
#[derive(Clone, Debug)]
pub struct FrozenKeys {
    shards: Vec<Arc<Shard>>,
}

impl Frozen for FrozenKeys {
    /// Rows one after the other, in the order of their keys: key, position and clock of the last change, fields,
    /// body. A row is whole in its piece. The order lets a reader of few keys skip pieces.
    fn encode(&self, bytes: usize) -> Vec<Bytes> {
        let rows = self.shards.iter().flat_map(|shard| shard.iter());
        let mut rows: Vec<_> = rows.map(|row| (first_bytes(row.key()), row)).collect();
        rows.sort_unstable_by(|(a_first, a), (b_first, b)| {
            a_first.cmp(b_first).then_with(|| a.key().cmp(b.key()))
        });
        let (mut pieces, mut piece) = (Vec::new(), Vec::new());
        for (_, row) in rows {
            row.write(&mut piece);
            if piece.len() >= bytes {
                pieces.push(std::mem::take(&mut piece).into());
            }
        }
        if !piece.is_empty() {
            pieces.push(piece.into());
        }
        pieces
    }
}

/// The first eight bytes of a key as a number of the same order. Most keys differ in them, so sorting seldom looks at
/// the keys themselves, which lie apart in memory.
fn first_bytes(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = key.len().min(8);
    first[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Name;

    fn event(text: &str) -> Event {
        let text = format!(r#"{{"stream":"s","number":1,{text}}}"#);
        Event::from_json(&text, None, &MirrorLimits::DEFAULT).unwrap()
    }

    fn state(retention_ms: Option<u64>) -> KeyedState {
        let options = StateOptions { deletes: vec![Name::new("gone").unwrap()], retention_ms };
        KeyedState::new(options, &MirrorLimits::DEFAULT, 3)
    }

    fn apply(state: &mut KeyedState, at: u64, text: &str) {
        state.apply(Moment { position: at, sent_ms: at }, event(text).borrowed(), &mut Vec::new());
    }

    fn fields(state: &KeyedState, key: &str) -> String {
        format!("{:?}", state.value(key).unwrap().fields)
    }

    #[test]
    fn last_value_of_each_field_is_kept() {
        let mut state = state(None);
        apply(&mut state, 1, r#""key":"k","type":"t","fields":{"a":1,"b":1},"body":"x""#);
        apply(&mut state, 2, r#""key":"k","type":"u","fields":{"b":2,"c":2}"#);
        assert_eq!(
            fields(&state, "k"),
            r#"{"a": Some(Integer(1)), "b": Some(Integer(2)), "c": Some(Integer(2))}"#
        );
        apply(&mut state, 3, r#""key":"k","type":"u","fields":{"b":null,"c":3}"#);
        assert_eq!(fields(&state, "k"), r#"{"a": Some(Integer(1)), "c": Some(Integer(3))}"#);
        let value = state.value("k").unwrap();
        assert_eq!((&value.body[..], value.changed.position), (&b"x"[..], 3));
    }

    #[test]
    fn types_of_deletes_remove_their_key() {
        let mut state = state(None);
        apply(&mut state, 1, r#""key":"k","type":"t","fields":{"a":1}"#);
        apply(&mut state, 2, r#""key":"k","type":"gone""#);
        apply(&mut state, 3, r#""key":"other","type":"gone""#);
        assert!(state.is_empty() && state.value("k").is_none());
    }

    #[test]
    fn keys_that_do_not_change_expire_by_the_origins_clock() {
        let mut state = state(Some(100));
        apply(&mut state, 0, r#""key":"a","type":"t","fields":{"a":1}"#);
        apply(&mut state, 10, r#""key":"b","type":"t","fields":{"a":1}"#);
        apply(&mut state, 60, r#""key":"a","type":"t","fields":{"a":2}"#);
        apply(&mut state, 109, r#""key":"c","type":"t","fields":{"a":1}"#);
        assert_eq!(state.len(), 3);
        apply(&mut state, 110, r#""key":"c","type":"t","fields":{"a":1}"#);
        assert!(state.value("b").is_none() && state.value("a").is_some());
        apply(&mut state, 160, r#""key":"c","type":"t","fields":{"a":1}"#);
        assert_eq!(state.len(), 1);
    }

    #[test]
    fn restored_state_expires_as_the_live_one() {
        let mut live = state(Some(50));
        for number in 0..500_u64 {
            let key = number * 7_919 % 97;
            let text = match number % 11 {
                0 => format!(r#""key":"k{key}","type":"gone""#),
                _ => format!(r#""key":"k{key}","type":"t","fields":{{"n":{number}}}"#),
            };
            apply(&mut live, number, &text);
            if number % 100 == 60 {
                let mut restored = state(Some(50));
                live.freeze().encode(100).iter().for_each(|piece| restored.restore(piece).unwrap());
                for later in number + 1..number + 60 {
                    let mut after = live.clone();
                    let text = r#""key":"other","type":"t""#;
                    apply(&mut after, later, text);
                    apply(&mut restored, later, text);
                    apply(&mut live, later, text);
                    assert!(restored == live && after == live, "at {later}");
                }
            }
        }
        assert!(live.aging.len() == live.len());
    }

    #[test]
    fn frozen_state_stays_and_is_restored() {
        let mut live = state(None);
        for number in 0..2_000_u64 {
            apply(
                &mut live,
                number,
                &format!(r#""key":"k{}","type":"t","fields":{{"n":{number}}}"#, number % 700),
            );
        }
        let (copy, frozen) = (live.clone(), live.freeze());
        for number in 2_000..3_000_u64 {
            apply(
                &mut live,
                number,
                &format!(r#""key":"k{}","type":"t","fields":{{"n":{number}}}"#, number % 900),
            );
        }
        let pieces = frozen.encode(1_000);
        assert!(pieces.len() > 5);
        let mut restored = state(None);
        pieces.iter().for_each(|piece| restored.restore(piece).unwrap());
        assert!(restored == copy && restored != live);
        let cut = pieces[0].slice(..pieces[0].len() - 1);
        assert!(state(None).restore(&cut).is_err());
    }

    #[test]
    fn shards_stay_small_and_keep_their_keys_while_keys_come_and_go() {
        let mut live = state(None);
        let keys = SHARDS_MIN as u64 * SHARD_KEYS as u64 * 3;
        let frozen = live.freeze();
        for number in 1..=keys {
            apply(&mut live, number, &format!(r#""key":"k{number}","type":"t","fields":{{"n":{number}}}"#));
        }
        assert_eq!(live.len() as u64, keys);
        assert!((1..=keys).all(|number| live.value(&format!("k{number}")).is_some()));
        let largest = live.shards.iter().map(|shard| shard.len()).max().unwrap();
        assert!(largest < 4 * SHARD_KEYS, "{largest} keys in one of {} shards", live.shards.len());
        assert!(frozen.encode(1_000).is_empty(), "splitting leaves a frozen state as it was");
        for number in 1..=keys {
            apply(&mut live, keys + number, &format!(r#""key":"k{number}","type":"gone""#));
        }
        assert!(live.is_empty());
    }

    #[test]
    fn keys_beyond_the_limit_are_counted_and_not_kept() {
        let limits = MirrorLimits { state_keys_max: 1, ..MirrorLimits::DEFAULT };
        let mut state = KeyedState::new(StateOptions::default(), &limits, 3);
        apply(&mut state, 1, r#""key":"a","type":"t","fields":{"a":1}"#);
        apply(&mut state, 2, r#""key":"b","type":"t","fields":{"a":1}"#);
        apply(&mut state, 3, r#""key":"a","type":"t","fields":{"a":2}"#);
        assert_eq!((state.len(), state.refused()), (1, 1));
    }

    #[test]
    fn row_in_json_has_its_body_as_text_or_base64() {
        let fields = Fields::default();
        let changed = Moment { position: 3, sent_ms: 9 };
        let shown = |body: &'static [u8]| {
            let row =
                KeyValue { key: "k".into(), fields: fields.clone(), body: Bytes::from_static(body), changed };
            serde_json::to_string(&row).unwrap()
        };
        assert_eq!(shown(b""), r#"{"key":"k","fields":{},"position":3,"sent_ms":9}"#);
        assert!(shown(b"gate").contains(r#""body":"gate""#));
        assert!(shown(b"\xff").contains(r#""body_base64":"/w==""#));
    }
}

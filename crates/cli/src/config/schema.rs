//! The list of keys as a JSON schema (draft 2020-12), for editors and for checks before a roll-out.

use super::keys::{self, Key, Kind, Table};
use serde_json::{Map, Value, json};
use treefold_core::bounds::Range;
use treefold_core::replica::POLLS_PER_PARTITION_MAX;

/// Texts that are durations.
const DURATION: &str = r"^[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|m|h)$";
/// Texts that are numbers of bytes.
const BYTES: &str = r"^[0-9]+(\.[0-9]+)? *([kMGT]?B|[KMGT]iB)?$";

/// The schema of a file.
pub(crate) fn schema() -> Value {
    let keys = keys::all();
    let mut root = table_of(&keys, Table::Top);
    let mut gateway = table_of(&keys, Table::Gateway);
    gateway["properties"]["limits"] = table_of(&keys, Table::GatewayLimits);
    let mut tuning = table_of(&keys, Table::Tuning);
    tuning["properties"]["membership"] = table_of(&keys, Table::Membership);
    tuning["properties"]["placement"] = table_of(&keys, Table::Placement);
    let share =
        keys.iter().find(|key| key.table == Table::Shares).map(|key| key.about.as_str()).unwrap_or_default();
    let shares = json!({
        "type": "object",
        "description": share,
        "additionalProperties": { "type": ["number", "string"] },
    });
    for (name, table) in [
        ("shares", shares),
        ("gateway", gateway),
        ("limits", table_of(&keys, Table::Limits)),
        ("tuning", tuning),
    ] {
        root["properties"][name] = table;
    }
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("Configuration of a Treefold node");
    root
}

fn table_of(keys: &[Key], table: Table) -> Value {
    let of_table = keys.iter().filter(|key| key.table == table);
    let properties: Map<String, Value> = of_table.map(|key| (key.name.to_owned(), property(key))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn property(key: &Key) -> Value {
    let mut property = match key.kind {
        Kind::Text(_) => json!({ "type": "string" }),
        Kind::Texts(_) => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Switch | Kind::Figure(Range::Switch) => json!({ "type": "boolean" }),
        Kind::Count(least, most) | Kind::Figure(Range::Count(least, most)) => whole(least, most),
        Kind::Time => text(DURATION),
        Kind::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Kind::Figure(Range::Bytes(least, most)) => json!({ "anyOf": [whole(least, most), text(BYTES)] }),
        Kind::Figure(Range::Time(..)) if !key.table.takes_nanoseconds() => text(DURATION),
        Kind::Figure(Range::Time(least, most)) => {
            let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            json!({ "anyOf": [text(DURATION), whole(nanoseconds(least), nanoseconds(most))] })
        }
        Kind::Figure(Range::Fraction(least, most)) => {
            json!({ "type": "number", "minimum": least, "maximum": most })
        }
        Kind::Figure(Range::Policy) => policy(),
    };
    let mut about = key.about.clone();
    if let Kind::Figure(range) = key.kind {
        about = format!("{about} ({range})");
    }
    if key.is_reloaded {
        about.push_str(". A running node takes a new value on SIGHUP");
    }
    property["description"] = json!(about);
    let default = key.default.as_ref().and_then(|default| serde_json::from_str::<Value>(default).ok());
    if let Some(default) = default {
        property["default"] = default;
    }
    property
}

/// A replica policy by its name, or as files written for earlier versions have it.
fn policy() -> Value {
    let polls: Vec<String> = (1..=POLLS_PER_PARTITION_MAX).map(|polls| polls.to_string()).collect();
    let polled =
        json!({ "type": "object", "properties": { "polls": whole(1, POLLS_PER_PARTITION_MAX.into()) } });
    json!({ "anyOf": [
        { "enum": ["random", "round_robin", "announced", "peak_ewma", "prequal", "prequal_inline"] },
        text(&format!("^polled:({})$", polls.join("|"))),
        { "enum": ["Random", "RoundRobin", "Announced", "PeakEwma", "Prequal", "PrequalInline"] },
        { "type": "object", "additionalProperties": false, "properties": { "Polled": polled } },
    ]})
}

fn whole(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn text(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

//! The figures as text for people and as JSON for programs.

use crate::measure::sharing::USES;
use crate::measure::{Measure, RoomLines, StructSize, TypeSize};
use crate::rule::types::{FIELDS_MAX, FIELDS_WITHOUT_REASON_MAX, NODE_METHODS_MAX};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Pairs of uses whose shared lines are printed separately.
const PAIRS: [[&str; 2]; 3] = [["call", "stream"], ["call", "push"], ["stream", "push"]];
const WRITTEN: &str = "writing to a String cannot fail";

/// Formats the figures as text for people.
pub fn text(measure: &Measure) -> String {
    let mut out = String::new();
    let above = measure.structs_above_limit();
    writeln!(out, "fields of structs of core, above {FIELDS_WITHOUT_REASON_MAX} (tests aside)")
        .expect(WRITTEN);
    for StructSize { name, fields, is_table } in &measure.structs {
        let table = if *is_table { "  (a table)" } else { "" };
        writeln!(out, "  {fields:>5}  {name}{table}").expect(WRITTEN);
    }
    writeln!(out, "  {above} above {FIELDS_MAX}, tables aside\n").expect(WRITTEN);

    let TypeSize { methods, blocks, .. } = measure.node;
    writeln!(out, "methods of Node<P>: {methods} in {blocks} blocks (at most {NODE_METHODS_MAX})\n")
        .expect(WRITTEN);
    writeln!(out, "methods by type, the largest").expect(WRITTEN);
    for TypeSize { name, methods, blocks } in &measure.types {
        writeln!(out, "  {methods:>5}  {name} ({blocks} blocks)").expect(WRITTEN);
    }

    writeln!(out, "\nlines by room (tests aside)\n   code  comments").expect(WRITTEN);
    for RoomLines { room, code, comments } in &measure.rooms {
        writeln!(out, "  {code:>5}  {comments:>8}  {room}").expect(WRITTEN);
    }
    let (code, comments) = four_rooms(measure);
    writeln!(out, "  {code:>5}  {comments:>8}  wave + call + push + stream").expect(WRITTEN);
    let (code, comments) = lines_where(measure, |room| room != "node");
    writeln!(out, "  {code:>5}  {comments:>8}  wave + call + push + stream + seat\n").expect(WRITTEN);

    writeln!(out, "lines of code used by more than one of call, stream and push").expect(WRITTEN);
    for ((module, uses), lines) in shared_by_module(measure) {
        writeln!(out, "  {lines:>5}  {module}  ({uses})").expect(WRITTEN);
    }
    for pair in PAIRS {
        let lines = measure.shared_lines(&pair);
        writeln!(out, "  {lines:>5}  by {} and {}", pair[0], pair[1]).expect(WRITTEN);
    }
    writeln!(out, "  {:>5}  by call, stream and push", measure.shared_lines(&USES)).expect(WRITTEN);
    writeln!(out, "  {:>5}  by at least two", measure.shared_lines_of_any_two()).expect(WRITTEN);
    out
}

/// Formats the figures as one JSON object on one line.
pub fn json(measure: &Measure) -> String {
    let structs = list(&measure.structs, |size| {
        format!(r#"{{"name":"{}","fields":{},"is_table":{}}}"#, size.name, size.fields, size.is_table)
    });
    let types = list(&measure.types, type_json);
    let rooms = list(&measure.rooms, |lines| {
        format!(r#"{{"room":"{}","code":{},"comments":{}}}"#, lines.room, lines.code, lines.comments)
    });
    let pairs: Vec<String> = PAIRS
        .iter()
        .map(|pair| format!(r#""{}_{}":{}"#, pair[0], pair[1], measure.shared_lines(pair)))
        .collect();
    let shared = list(&measure.shared, |item| {
        let by = list(&item.used_by, |room| format!(r#""{room}""#));
        format!(r#"{{"item":"{}","used_by":{by},"lines":{}}}"#, item.item, item.lines)
    });
    let (code, comments) = four_rooms(measure);
    let above = measure.structs_above_limit();
    let node = type_json(&measure.node);
    let (any, all) = (measure.shared_lines_of_any_two(), measure.shared_lines(&USES));
    format!(
        r#"{{"structs_above_limit":{above},"fields_max":{FIELDS_MAX},"structs":{structs},"node":{node},"node_methods_max":{NODE_METHODS_MAX},"types":{types},"rooms":{rooms},"wave_call_push_stream":{{"code":{code},"comments":{comments}}},"shared_lines":{{"any_two":{any},"all_three":{all},{}}},"shared":{shared}}}"#,
        pairs.join(",")
    )
}

// Names are paths of identifiers, so they need no escaping.
fn type_json(size: &TypeSize) -> String {
    format!(r#"{{"name":"{}","methods":{},"blocks":{}}}"#, size.name, size.methods, size.blocks)
}

fn list<T>(of: &[T], write: impl Fn(&T) -> String) -> String {
    format!("[{}]", of.iter().map(write).collect::<Vec<_>>().join(","))
}

/// Counts the code and comments of the four rooms that existed before `seat` did.
fn four_rooms(measure: &Measure) -> (usize, usize) {
    lines_where(measure, |room| room != "seat" && room != "node")
}

fn lines_where(measure: &Measure, counts: impl Fn(&str) -> bool) -> (usize, usize) {
    let counted = measure.rooms.iter().filter(|lines| counts(lines.room));
    counted.fold((0, 0), |(code, comments), lines| (code + lines.code, comments + lines.comments))
}

/// Sums the shared lines by module and by the uses that share them.
fn shared_by_module(measure: &Measure) -> BTreeMap<(String, String), usize> {
    let mut by_module: BTreeMap<(String, String), usize> = BTreeMap::new();
    for item in &measure.shared {
        *by_module.entry((item.module.clone(), item.used_by.join(", "))).or_default() += item.lines;
    }
    by_module
}

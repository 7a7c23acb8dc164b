//! `docs/protocol.proto` and the Rust headers describe the same messages.
//!
//! The test reads both as text: each message's fields by number, with name and type. A packed column of
//! numbers may be `bytes` in Rust, where `wire/columns.rs` and `wire/stream/tags.rs` encode it by hand.

use std::collections::{BTreeMap, BTreeSet};

const PROTO: &str = include_str!("../../../../../docs/protocol.proto");
const HEADERS: &str = include_str!("../header.rs");
const WAVE_HEADERS: &str = include_str!("../header/waves.rs");
const STATUS_HEADERS: &str = include_str!("../header/status.rs");
const STREAM_HEADERS: &str = include_str!("../stream/header.rs");

/// Messages of equal form that share one Rust header, and Rust names that differ from the message's.
const RENAMED: [(&str, &str); 4] = [
    ("CancelRequest", "NumberHeader"),
    ("NodeStatus", "StatusHeader"),
    ("OperatorRequest", "NumberHeader"),
    ("StatusRequest", "NumberHeader"),
];

/// A field: its number, its name, and its type with its label, such as `repeated uint64`.
type Fields = BTreeMap<u32, (String, String)>;

/// The messages of `docs/protocol.proto` by name.
fn documented() -> BTreeMap<String, Fields> {
    let mut messages = BTreeMap::new();
    let mut open: Option<(String, Fields)> = None;
    for line in PROTO.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        if let Some(name) = line.strip_prefix("message ") {
            open = Some((name.trim_end_matches([' ', '{']).to_owned(), Fields::new()));
        } else if line == "}" {
            messages.extend(open.take());
        } else if let (Some((_, fields)), Some((field, number))) = (open.as_mut(), line.split_once(" = ")) {
            let (kind, name) = field.rsplit_once(' ').expect("a type and a name");
            let number = number.trim_end_matches(';').parse().expect("a field's number");
            fields.insert(number, (name.to_owned(), kind.to_owned()));
        }
    }
    messages
}

/// The headers of one Rust file by name.
fn written(source: &str) -> BTreeMap<String, Fields> {
    let mut headers = BTreeMap::new();
    let (mut open, mut attribute): (Option<(String, Fields)>, Option<&str>) = (None, None);
    for line in source.lines().map(str::trim) {
        if let Some((_, name)) = line.split_once("struct ") {
            open = Some((name.trim_end_matches([' ', '{']).to_owned(), Fields::new()));
        } else if line == "}" {
            headers.extend(open.take());
        } else if let Some(inside) = line.strip_prefix("#[prost(") {
            attribute = Some(inside.trim_end_matches(")]"));
        } else if let (Some((_, fields)), Some(inside)) = (open.as_mut(), attribute.take()) {
            let (name, of) = line.split_once(": ").expect("a field and its type");
            let name = name.rsplit(' ').next().expect("a field's name");
            let (kind, number) = inside.rsplit_once(", tag = ").expect("a field's number");
            let number = number.trim_matches('"').parse().expect("a field's number");
            fields.insert(number, (name.to_owned(), kind_of(kind, of)));
        }
    }
    headers
}

/// A Rust field's type in protobuf's words. A message's type is the header's name without its ending.
fn kind_of(kind: &str, of: &str) -> String {
    let mut words = kind.split(", ").map(|word| word.split(' ').next().unwrap_or(word));
    let scalar = words.next().expect("a type");
    let label = words.next();
    let named = of.trim_end_matches(',').trim_start_matches("Option<").trim_start_matches("Vec<");
    let base = if scalar == "message" { message_of(named.trim_end_matches('>')) } else { scalar.to_owned() };
    match (label, scalar) {
        (Some("repeated"), _) => format!("repeated {base}"),
        (Some("optional"), "message") | (None, _) => base,
        (Some(label), _) => format!("{label} {base}"),
    }
}

fn message_of(header: &str) -> String {
    header.strip_suffix("Header").unwrap_or(header).to_owned()
}

/// True if both types have the same bytes on the wire. An enumeration is a number in Rust.
fn is_same(documented: &str, written: &str) -> bool {
    let base = documented.trim_start_matches("repeated ").trim_start_matches("optional ");
    let is_enum = PROTO.contains(&format!("\nenum {base} {{"));
    let documented = if is_enum { documented.replace(base, "uint32") } else { documented.to_owned() };
    let is_column = matches!(documented.as_str(), "repeated uint32" | "repeated uint64");
    documented == written || (is_column && written == "bytes")
}

/// Every difference between a message and its Rust header.
fn differences(message: &str, documented: &Fields, written: &Fields) -> Vec<String> {
    let mut found = Vec::new();
    for (number, (name, kind)) in documented {
        match written.get(number) {
            Some((here, of)) if here == name && is_same(kind, of) => {}
            Some((here, of)) => {
                found.push(format!(
                    "{message}: {kind} {name} = {number} in protocol.proto, {of} {here} in Rust"
                ));
            }
            None => found.push(format!("{message}.{name}: not in Rust")),
        }
    }
    let undocumented = written.iter().filter(|(number, _)| !documented.contains_key(number));
    found.extend(undocumented.map(|(_, (name, _))| format!("{message}.{name}: not in protocol.proto")));
    found
}

#[test]
fn protocol_proto_and_the_rust_headers_have_the_same_fields() {
    let (mut calls, streams) = (written(HEADERS), written(STREAM_HEADERS));
    calls.extend(written(WAVE_HEADERS));
    calls.extend(written(STATUS_HEADERS));
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for (message, fields) in documented() {
        let renamed = RENAMED.iter().find(|(of, _)| *of == message).map(|(_, header)| (*header).to_owned());
        let (headers, name) = match (renamed, message.strip_prefix("Stream")) {
            (Some(header), _) => (&calls, header),
            (None, Some(rest)) => (&streams, format!("{rest}Header")),
            (None, None) if calls.contains_key(&message) => (&calls, message.clone()),
            (None, None) => (&calls, format!("{message}Header")),
        };
        match headers.get(&name) {
            Some(header) => found.extend(differences(&message, &fields, header)),
            None => found.push(format!("{message}: no header {name} in Rust")),
        }
        used.insert((std::ptr::eq(headers, &calls), name));
    }
    let all = calls.keys().map(|name| (true, name)).chain(streams.keys().map(|name| (false, name)));
    let unused = all.filter(|&(of_calls, name)| !used.contains(&(of_calls, name.clone())));
    found.extend(unused.map(|(_, name)| format!("{name}: not in protocol.proto")));
    assert!(found.is_empty(), "{found:#?}");
    assert!(used.len() > 40, "too few headers were found in the files: {used:?}");
}

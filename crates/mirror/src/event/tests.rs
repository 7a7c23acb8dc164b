//! Tests of reading and writing events.

use super::*;
use crate::fields::Value;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;

fn json(text: &str) -> Result<Event, EventError> {
    Event::from_json(text, None, &LIMITS)
}

fn written(event: &Event) -> String {
    let mut out = Vec::new();
    write_json(event, &mut out);
    String::from_utf8(out).unwrap()
}

const POSITION: &str = r#"{"stream":"faa","number":17,"key":"DL 100","type":"position","fields":{"lat":33.64,"on":true,"tags":["a",-1,null]}}"#;

#[test]
fn json_is_read_and_written_unchanged() {
    let event = json(POSITION).unwrap();
    assert_eq!((&*event.stream, event.number, &*event.key), ("faa", 17, "DL 100"));
    assert_eq!(event.fields.value("lat"), Some(Value::Float(33.64)));
    assert_eq!(written(&event), POSITION);
}

#[test]
fn bodies_are_text_or_base64() {
    for text in [
        r#"{"stream":"a","number":1,"key":"k","type":"t","body":"naïve \"text\""}"#,
        r#"{"stream":"a","number":1,"key":"k","type":"t","body_base64":"/wABgA=="}"#,
    ] {
        assert_eq!(written(&json(text).unwrap()), text);
    }
    let both = r#"{"stream":"a","number":1,"key":"k","type":"t","body":"","body_base64":""}"#;
    assert!(json(both).unwrap_err().to_string().contains("exclude each other"));
}

#[test]
fn message_pack_is_read_without_copying() {
    let mut event = json(POSITION).unwrap();
    event.body = Bytes::from_static(&[0xff; 300]);
    let bytes = event.to_message_pack();
    let again = Event::from_message_pack(&bytes, None, &LIMITS).unwrap();
    assert_eq!(again, event);
    let is_inside = |part: &[u8]| bytes.as_ptr_range().contains(&part.as_ptr());
    assert!(is_inside(&again.body) && is_inside(again.key.as_bytes()) && is_inside(again.fields.as_bytes()));
}

#[test]
fn missing_members_are_named() {
    let without = |field: &str| {
        let mut all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(POSITION).unwrap();
        all.remove(field);
        json(&serde_json::to_string(&all).unwrap())
    };
    for field in ["stream", "number", "key", "type"] {
        assert_eq!(without(field), Err(EventError::Missing { field }));
    }
    assert!(without("fields").unwrap().fields.is_empty());
    let faa = Name::new("faa").unwrap();
    let named = Event::from_json(r#"{"number":1,"key":"k","type":"t"}"#, Some(&faa), &LIMITS).unwrap();
    assert_eq!(named.stream, faa, "the source's own stream");
}

#[test]
fn invalid_events_are_refused_by_field_and_limit() {
    let refused = |text: &str| json(text).unwrap_err().to_string();
    assert!(refused(r#"{"nmber":1}"#).contains("unknown field `nmber`"));
    assert!(
        refused(r#"{"stream":"a b","number":1,"key":"k","type":"t"}"#).starts_with("stream: `a b` is not")
    );
    assert!(
        refused(r#"{"stream":"a","number":-1,"key":"k","type":"t"}"#).contains("invalid value: integer `-1`")
    );
    assert!(refused(r#"{"stream":"a","number":0,"key":"k","type":"t"}"#).contains("start at 1"));
    assert_eq!(
        refused(r#"{"stream":"a","number":1,"key":"","type":"t"}"#),
        "key has 0 bytes; allowed: 1 to 1024"
    );
    let long = format!(r#"{{"stream":"a","number":1,"key":"{}","type":"t"}}"#, "k".repeat(1025));
    assert_eq!(refused(&long), "key has 1025 bytes; allowed: 1 to 1024");
    assert!(
        refused(r#"{"stream":"a","number":1,"key":"k","type":"t","fields":[1]}"#)
            .contains("fields: expected")
    );
    assert!(
        refused(r#"{"stream":"a","number":1,"key":"k","type":"t","fields":{"a":1,"a":2}}"#)
            .contains("field `a` occurs twice")
    );
    let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(17), "]".repeat(17));
    let deep = format!(r#"{{"stream":"a","number":1,"key":"k","type":"t","fields":{deep}}}"#);
    assert!(refused(&deep).contains("nested deeper than 16"));
}

#[test]
fn deepest_allowed_fields_can_be_written() {
    let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(16), "]".repeat(16));
    let text = format!(r#"{{"stream":"a","number":1,"key":"k","type":"t","fields":{deep}}}"#);
    assert_eq!(written(&json(&text).unwrap()), text);
}

#[test]
fn cut_message_pack_is_refused() {
    let bytes = json(POSITION).unwrap().to_message_pack();
    for length in 0..bytes.len() {
        let cut = bytes.slice(..length);
        assert!(Event::from_message_pack(&cut, None, &LIMITS).is_err(), "{length} bytes");
    }
}

#[test]
fn later_event_keeps_fields_that_it_does_not_set() {
    let one =
        json(r#"{"stream":"a","number":1,"key":"k","type":"t","fields":{"a":1,"b":1},"body":"x"}"#).unwrap();
    let two = json(r#"{"stream":"a","number":2,"key":"k","type":"t","fields":{"b":2}}"#).unwrap();
    let over = two.over(&one);
    assert_eq!(
        written(&over),
        r#"{"stream":"a","number":2,"key":"k","type":"t","fields":{"a":1,"b":2},"body":"x"}"#
    );
}

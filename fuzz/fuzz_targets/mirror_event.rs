//! One event, as MessagePack and as JSON. An accepted event must survive both forms.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use treefold_mirror::event::write_json;
use treefold_mirror::{Event, MirrorLimits};

fuzz_target!(|input: &[u8]| {
    let limits = &MirrorLimits::DEFAULT;
    let packed = Event::from_message_pack(&Bytes::copy_from_slice(input), None, limits).ok();
    let text = std::str::from_utf8(input).ok();
    let read = text.and_then(|text| Event::from_json(text, None, limits).ok());
    for event in packed.iter().chain(&read) {
        let again = Event::from_message_pack(&event.to_message_pack(), None, limits);
        // Fields may be written in several ways, and an empty map is written as one that is not empty bytes.
        assert!(again.is_ok_and(|again| again.key == event.key && again.body == event.body));
    }
    if let Some(event) = read {
        let mut written = Vec::new();
        write_json(&event, &mut written);
        let written = String::from_utf8(written).expect("JSON is UTF-8");
        assert_eq!(Event::from_json(&written, None, limits).expect("written JSON is read").key, event.key);
    }
});

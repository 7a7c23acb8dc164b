//! One batch of mirrored events. An accepted batch must survive being written again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use treefold_mirror::batch::{Batch, BatchWriter};

fuzz_target!(|input: &[u8]| {
    let Ok(batch) = Batch::read(&Bytes::copy_from_slice(input)) else { return };
    let Ok(events) = batch.events().collect::<Result<Vec<_>, _>>() else { return };
    let mut writer = BatchWriter::default();
    for event in &events {
        let stream = batch.head.streams.iter().position(|(name, _)| *name == event.stream);
        writer.push(stream.expect("invariant: an event's stream is listed"), event);
    }
    let mut written = Vec::new();
    writer.finish(&batch.head, &mut written);
    let again = Batch::read(&written.into()).expect("a written batch is read");
    assert_eq!(again.head, batch.head);
    assert!(again.events().map(|event| event.expect("a written event is read")).eq(events));
});

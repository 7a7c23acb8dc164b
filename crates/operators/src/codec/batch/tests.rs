//! Tests that batches survive encoding and that invalid bytes are refused without a panic.

use super::*;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, ListArray, NullArray, StringArray};
use arrow_schema::{Field, Schema};
use proptest::prelude::*;
use std::sync::Arc;

fn batch(rows: usize) -> Batch {
    let names: StringArray = (0..rows).map(|row| (row % 3 > 0).then(|| format!("host {row}"))).collect();
    let figures = Float64Array::from_iter((0..rows).map(|row| (row % 4 > 0).then_some(row as f64)));
    let kinds: DictionaryArray<Int32Type> = (0..rows).map(|row| ["disk", "net"][row % 2]).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..rows).map(|row| Some(vec![Some(row as i32); row % 3])),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("name", Arc::new(names)),
        ("figure", Arc::new(figures)),
        ("kind", Arc::new(kinds)),
        ("list", Arc::new(lists)),
    ];
    Batch(
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap(),
    )
}

#[test]
fn batches_come_back_as_they_were() {
    for rows in [0, 1, 1000] {
        let sent = batch(rows);
        let bytes = sent.encode().unwrap();
        assert_eq!(Batch::decode(&bytes).unwrap(), sent);
        let mut buffer = BytesMut::from(&b"before"[..]);
        sent.encode_into(&mut buffer).unwrap();
        assert_eq!(buffer[6..], bytes);
    }
}

#[test]
fn reading_shares_the_payload() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    let bytes = Batch(RecordBatch::try_from_iter([("x", column)]).unwrap()).encode().unwrap();
    let read = Batch::decode(&bytes).unwrap();
    let data = read.0.column(0).to_data();
    let (at, column) = (bytes.as_ptr() as usize, data.buffers()[0].as_ptr() as usize);
    assert!((at..at + bytes.len()).contains(&column));
}

#[test]
fn room_of_a_decoded_batch_is_at_most_its_payload() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
    let wide = RecordBatch::try_from_iter((0..64).map(|n| (n.to_string(), column.clone()))).unwrap();
    let bytes = Batch(wide).encode().unwrap();
    assert!(Batch::decode(&bytes).unwrap().room() <= bytes.len());
}

#[test]
fn a_stream_of_several_batches_is_one_and_of_none_is_empty() {
    let (first, second) = (batch(3), batch(5));
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, first.0.schema_ref()).unwrap();
    writer.write(&first.0).unwrap();
    writer.write(&second.0).unwrap();
    writer.finish().unwrap();
    drop(writer);
    assert_eq!(Batch::decode(&bytes.into()).unwrap(), concatenated(&[first.clone(), second]).unwrap());

    let mut bytes = Vec::new();
    StreamWriter::try_new(&mut bytes, first.0.schema_ref()).unwrap().finish().unwrap();
    assert_eq!(Batch::decode(&bytes.into()).unwrap().0.num_rows(), 0);
}

#[test]
fn rows_and_columns_have_limits() {
    let nulls: ArrayRef = Arc::new(NullArray::new(BATCH_ROWS_MAX + 1));
    let bytes = Batch(RecordBatch::try_from_iter([("n", nulls)]).unwrap()).encode().unwrap();
    assert!(bytes.len() < 1024, "so many rows in {} bytes", bytes.len());
    let refused = Batch::decode(&bytes).unwrap_err().to_string();
    assert!(refused.contains("16777217 rows are above the limit of 16777216"), "{refused}");

    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let wide =
        RecordBatch::try_from_iter((0..=BATCH_COLUMNS_MAX).map(|n| (n.to_string(), column.clone()))).unwrap();
    let refused = Batch::decode(&Batch(wide).encode().unwrap()).unwrap_err().to_string();
    assert!(refused.contains("1025 columns are above the limit of 1024"), "{refused}");
}

#[test]
fn batches_of_another_schema_are_refused_by_column() {
    let one = |name: &str| {
        Batch(RecordBatch::new_empty(Arc::new(Schema::new(vec![Field::new(
            name,
            arrow_schema::DataType::Int64,
            true,
        )]))))
    };
    let refused = concatenated(&[one("bytes"), one("packets")]).unwrap_err().to_string();
    assert!(refused.contains("column `packets` differs from column `bytes`"), "{refused}");
    assert!(concatenated(&[]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn hostile_bytes_are_an_error_and_never_a_panic(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut bytes = batch(20).encode().unwrap().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(read) = Batch::decode(&bytes.into()) {
            prop_assert!(read.0.num_rows() <= BATCH_ROWS_MAX && read.encode().is_ok(), "a batch that decodes must also encode");
        }
    }
}

#[test]
fn payloads_may_lie_at_any_address() {
    let sent = batch(20);
    let bytes = sent.encode().unwrap();
    for offset in 0..64 {
        let mut buffer = BytesMut::zeroed(offset);
        buffer.extend_from_slice(&bytes);
        assert_eq!(Batch::decode(&buffer.freeze().slice(offset..)).unwrap(), sent, "at {offset}");
    }
}

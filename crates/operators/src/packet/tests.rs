//! Tests that packets survive encoding and that invalid bytes are refused with the field's number.

use super::*;
use proptest::prelude::*;

fn row_of_all_types() -> Packet {
    Row::new()
        .i64(-2)
        .u64(3)
        .f64(0.5)
        .f32(-1.5)
        .str("hé")
        .blob(&[0, 255])
        .i64s(&[-1])
        .u64s(&[1, 2])
        .f64s(&[])
        .f32s(&[1.0])
        .strs(&["a", ""])
        .blobs(&[b"\xff"])
        .i32(-2)
        .u32(u32::MAX)
        .i16(-2)
        .u16(258)
        .i8(-2)
        .u8(200)
        .i32s(&[1])
        .u32s(&[])
        .i16s(&[-1, 2])
        .u16s(&[3])
        .i8s(&[-1, 0, 1])
        .u8s(&[255])
        .packet()
}

/// One packet with every type, as every implementation must write it.
const GOLDEN: &str = "18 \
    01 feffffffffffffff \
    02 0300000000000000 \
    03 000000000000e03f \
    04 0000c0bf \
    05 03000000 68c3a9 \
    06 02000000 00ff \
    11 01000000 ffffffffffffffff \
    12 02000000 0100000000000000 0200000000000000 \
    13 00000000 \
    14 01000000 0000803f \
    15 02000000 09000000 01000000 61 00000000 \
    16 01000000 05000000 01000000 ff \
    07 feffffff \
    08 ffffffff \
    09 feff \
    0a 0201 \
    0b fe \
    0c c8 \
    17 01000000 01000000 \
    18 00000000 \
    19 02000000 ffff 0200 \
    1a 01000000 0300 \
    1b 03000000 ff 00 01 \
    1c 01000000 ff";

fn octets(hexadecimal: &str) -> Bytes {
    let digits: Vec<char> = hexadecimal.chars().filter(|digit| !digit.is_whitespace()).collect();
    let octet = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

#[test]
fn encoding_matches_the_specification() {
    assert_eq!(row_of_all_types().bytes(), &octets(GOLDEN));
    let read = Packet::read(&octets(GOLDEN)).unwrap();
    let format = "i64 u64 f64 f32 str blob i64s u64s f64s f32s strs blobs \
                  i32 u32 i16 u16 i8 u8 i32s u32s i16s u16s i8s u8s";
    assert_eq!(read.format(), format);
    let shown = "[-2, 3, 0.5, -1.5, \"hé\", b\"\\x00\\xff\", [-1], [1, 2], [], [1.0], [\"a\", \"\"], [b\"\\xff\"], \
                 -2, 4294967295, -2, 258, -2, 200, [1], [], [-1, 2], [3], [-1, 0, 1], [255]]";
    assert_eq!(format!("{read:?}"), format!("`{}` {shown}", read.format()));
}

#[test]
fn wrong_type_or_missing_field_is_an_error_with_the_format() {
    let packet = row_of_all_types();
    assert_eq!(packet.str(4), Ok("hé"));
    assert_eq!(packet.u64s(7).unwrap().to_vec(), [1, 2]);
    assert_eq!(packet.u64s(7).unwrap().at(1), Some(2));
    assert_eq!(packet.strs(10).unwrap().collect::<Vec<_>>(), ["a", ""]);
    assert!(packet.f64(0).unwrap_err().to_string().ends_with("i8s u8s` is not of type f64"));
    let short = Row::new().i64(1).packet();
    assert_eq!(short.i64(1).unwrap_err().to_string(), "a packet `i64` of 1 fields has no field 1");
}

#[test]
fn views_share_the_packets_memory() {
    let packet = row_of_all_types();
    let shared = packet.share(packet.blob(5).unwrap());
    assert_eq!(shared.as_ptr(), packet.blob(5).unwrap().as_ptr());
    let read = Packet::decode(packet.bytes()).unwrap();
    assert_eq!(read.bytes().as_ptr(), packet.bytes().as_ptr());
    assert_eq!(Packet::CODEC, Codec::Packet);
}

#[test]
fn element_and_array_types_map_to_each_other() {
    for &kind in Type::ALL {
        assert_eq!(Type::of_number(kind as u8), Some(kind));
        assert_eq!(kind.element().array(), kind.array());
        assert_eq!(kind.is_array(), kind == kind.array());
        assert_eq!(kind.array().name(), format!("{}s", kind.element().name()));
    }
    assert_eq!((0..=u8::MAX).filter_map(Type::of_number).count(), Type::ALL.len());
}

#[test]
fn invalid_packets_are_refused_with_field_and_sizes() {
    let refused = |hexadecimal| Packet::read(&octets(hexadecimal)).unwrap_err().to_string();
    assert_eq!(refused(""), "a packet has at least one byte, its number of fields, but there are no bytes");
    assert_eq!(refused("02 02 0000000000000000"), "the packet ends before field 1 of the 2 it announces");
    assert_eq!(refused("01 0d 00"), "field 0 has type number 0x0d, which is unknown");
    assert_eq!(refused("01 1d 00000000"), "field 0 has type number 0x1d, which is unknown");
    assert_eq!(refused("01 20 00"), "field 0 has type number 0x20, which is unknown");
    assert_eq!(refused("01 19 02000000 010000"), "field 0, a i16s, takes 8 bytes, but only 7 are left");
    assert_eq!(refused("01 04 000000"), "field 0, a f32, takes 4 bytes, but only 3 are left");
    assert_eq!(refused("01 13 ffffffff"), "field 0, a f64s, takes 34359738364 bytes, but only 4 are left");
    assert_eq!(refused("01 16 0100"), "field 0, a blobs, takes 8 bytes, but only 2 are left");
    assert_eq!(
        refused("01 16 ffffffff 04000000 00000000"),
        "field 0, a blobs of 4294967295 entries in 4 bytes, has entries of another total length"
    );
    assert_eq!(
        refused("01 15 01000000 05000000 00000000 00"),
        "field 0, a strs of 1 entries in 5 bytes, has entries of another total length"
    );
    assert!(refused("01 05 01000000 ff").starts_with("field 0, a str, is not valid UTF-8: invalid utf-8"));
    assert!(
        refused("01 15 01000000 05000000 01000000 ff").starts_with("field 0, a strs, is not valid UTF-8")
    );
    assert_eq!(refused("00 01"), "1 bytes follow the last of 0 fields");
    let error = Packet::decode(&octets("01 0d")).unwrap_err().to_string();
    assert!(error.contains("from 2 bytes of typed packet: field 0 has type number 0x0d"), "{error}");
}

#[test]
fn a_packet_has_room_for_255_fields() {
    let full = (0..FIELDS_MAX).fold(Row::new(), |row, at| row.u64(at as u64));
    let packet = Packet::read(full.clone().packet().bytes()).unwrap();
    assert_eq!((packet.len(), packet.u64(254)), (255, Ok(254)));
    assert!(std::panic::catch_unwind(|| full.u64(255)).is_err());
}

/// A packet's value that owns its data.
#[derive(Clone, Debug)]
enum Owned {
    Scalars(i64, u64, f64, f32),
    Narrow(i32, u16, i8),
    Str(String),
    Blob(Vec<u8>),
    Arrays(Vec<i64>, Vec<u64>, Vec<f64>, Vec<f32>),
    Narrows(Vec<u32>, Vec<i16>, Vec<u8>),
    Strs(Vec<String>),
    Blobs(Vec<Vec<u8>>),
}

fn owned() -> impl Strategy<Value = Owned> {
    let octets = || proptest::collection::vec(any::<u8>(), 0..90);
    let arrays = (
        proptest::collection::vec(any::<i64>(), 0..90),
        proptest::collection::vec(any::<u64>(), 0..9),
        proptest::collection::vec(any::<f64>(), 0..200),
        proptest::collection::vec(any::<f32>(), 0..70),
    );
    let narrows = (
        proptest::collection::vec(any::<u32>(), 0..70),
        proptest::collection::vec(any::<i16>(), 0..140),
        octets(),
    );
    prop_oneof![
        (any::<i32>(), any::<u16>(), any::<i8>()).prop_map(|(a, b, c)| Owned::Narrow(a, b, c)),
        narrows.prop_map(|(a, b, c)| Owned::Narrows(a, b, c)),
        (any::<i64>(), any::<u64>(), any::<f64>(), any::<f32>())
            .prop_map(|(a, b, c, d)| Owned::Scalars(a, b, c, d)),
        ".{0,40}".prop_map(Owned::Str),
        octets().prop_map(Owned::Blob),
        arrays.prop_map(|(a, b, c, d)| Owned::Arrays(a, b, c, d)),
        proptest::collection::vec(".{0,9}", 0..9).prop_map(Owned::Strs),
        proptest::collection::vec(octets(), 0..5).prop_map(Owned::Blobs),
    ]
}

fn append(row: Row, value: &Owned) -> Row {
    match value {
        Owned::Scalars(a, b, c, d) => row.i64(*a).u64(*b).f64(*c).f32(*d),
        Owned::Narrow(a, b, c) => row.i32(*a).u16(*b).i8(*c),
        Owned::Narrows(a, b, c) => row.u32s(a).i16s(b).u8s(c),
        Owned::Str(text) => row.str(text),
        Owned::Blob(octets) => row.blob(octets),
        Owned::Arrays(a, b, c, d) => row.i64s(a).u64s(b).f64s(c).f32s(d),
        Owned::Strs(texts) => row.strs(texts),
        Owned::Blobs(blobs) => row.blobs(blobs),
    }
}

/// Compares the next values with the appended ones; floats are compared by their bits.
fn is_next(values: &mut Values<'_>, value: &Owned) -> bool {
    let mut next = || values.next().unwrap();
    match value {
        Owned::Scalars(a, b, c, d) => {
            matches!((next(), next(), next(), next()), (Value::I64(x), Value::U64(y), Value::F64(z), Value::F32(w))
                if (x, y, z.to_bits(), w.to_bits()) == (*a, *b, c.to_bits(), d.to_bits()))
        }
        Owned::Narrow(a, b, c) => (next(), next(), next()) == (Value::I32(*a), Value::U16(*b), Value::I8(*c)),
        Owned::Narrows(a, b, c) => {
            matches!((next(), next(), next()), (Value::U32s(x), Value::I16s(y), Value::U8s(z))
                if x.to_vec() == *a && y.to_vec() == *b && z.to_vec() == *c)
        }
        Owned::Str(text) => next() == Value::Str(text),
        Owned::Blob(octets) => next() == Value::Blob(octets),
        Owned::Arrays(a, b, c, d) => {
            matches!((next(), next(), next(), next()), (Value::I64s(x), Value::U64s(y), Value::F64s(z), Value::F32s(w))
                if x.to_vec() == *a && y.to_vec() == *b
                    && z.iter().map(f64::to_bits).eq(c.iter().copied().map(f64::to_bits))
                    && w.iter().map(f32::to_bits).eq(d.iter().copied().map(f32::to_bits)))
        }
        Owned::Strs(texts) => {
            matches!(next(), Value::Strs(read) if read.eq(texts.iter().map(String::as_str)))
        }
        Owned::Blobs(blobs) => {
            matches!(next(), Value::Blobs(read) if read.eq(blobs.iter().map(Vec::as_slice)))
        }
    }
}

proptest! {
    #[test]
    fn rows_survive(row in proptest::collection::vec(owned(), 0..9)) {
        // Rows that fit the stack buffer, rows on the heap, and rows that cross from one to the other.
        let packet = row.iter().fold(Row::new(), append).packet();
        let read = Packet::decode(&packet.encode().unwrap()).unwrap();
        let mut values = read.values();
        for value in &row {
            prop_assert!(is_next(&mut values, value));
        }
        prop_assert!(values.next().is_none());
        prop_assert_eq!(read.types().count(), read.len());
        prop_assert_eq!(Packet::of(read.values()), packet, "one row has one encoding");
    }

    #[test]
    fn bytes_of_any_kind_are_refused_or_read_and_never_panic(
        fields in 0u8..4,
        noise in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..0x20], 0..60),
    ) {
        let noise: Bytes = [vec![fields], noise].concat().into();
        if let Ok(packet) = Packet::read(&noise) {
            prop_assert_eq!(packet.values().count(), packet.len());
            prop_assert_eq!(Packet::of(packet.values()), packet);
        }
    }

    #[test]
    fn a_packet_cut_short_or_changed_never_panics(
        row in proptest::collection::vec(owned(), 1..4),
        at in any::<proptest::sample::Index>(),
        octet in any::<u8>(),
    ) {
        let mut octets = row.iter().fold(Row::new(), append).packet().into_bytes().to_vec();
        let at = at.index(octets.len());
        prop_assert!(Packet::read(&Bytes::copy_from_slice(&octets[..at])).is_err());
        octets[at] = octet;
        if let Ok(packet) = Packet::read(&Bytes::from(octets)) {
            let shown = format!("{packet:?}");
            prop_assert!(shown.starts_with('`'));
        }
    }
}

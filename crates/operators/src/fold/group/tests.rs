//! Tests that the same rows give the same groups in every tree, and that invalid columns are refused by name.

use super::*;
use crate::fold::Fold as _;
use arrow_array::types::{Date32Type, Float32Type};
use arrow_array::{
    BooleanArray, Date32Array, Decimal128Array, Float32Array, Int64Array, NullArray, StringArray, UInt64Array,
};
use proptest::prelude::*;

fn aggregate(function: Function, column: &str) -> Aggregate {
    Aggregate { column: column.to_owned(), function }
}

fn params(keys: &[&str], aggregates: Vec<Aggregate>) -> GroupParams {
    GroupParams {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        aggregates,
        ..GroupParams::default()
    }
}

fn every_function(keys: &[&str]) -> GroupParams {
    let functions = [Function::Sum, Function::Min, Function::Max, Function::Count, Function::Average];
    let of = |column| functions.map(|function| aggregate(function, column));
    params(keys, [of("bytes"), of("slots"), of("load")].concat())
}

fn open(params: &GroupParams) -> Grouping {
    Grouping::open(&params.encode().unwrap()).unwrap()
}

fn up(params: &GroupParams, pieces: &[Piece]) -> Result<Bytes> {
    open(params).fold(pieces)
}

/// A row of a report of hosts about their tasks.
#[derive(Clone, Debug)]
struct Row {
    host: Option<String>,
    rank: Option<f64>,
    bytes: Option<i64>,
    slots: Option<u64>,
    load: Option<f64>,
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("host", Arc::new(rows.iter().map(|row| row.host.clone()).collect::<StringArray>())),
        ("rank", Arc::new(rows.iter().map(|row| row.rank).collect::<Float64Array>())),
        ("bytes", Arc::new(rows.iter().map(|row| row.bytes).collect::<Int64Array>())),
        ("slots", Arc::new(rows.iter().map(|row| row.slots).collect::<UInt64Array>())),
        ("load", Arc::new(rows.iter().map(|row| row.load).collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn sent(number: u32, rows: &[Row]) -> Piece {
    Piece { source: Source::Endpoint(number), payload: Batch(batch(rows)).encode().unwrap() }
}

/// Generates rows with some nulls in every column, whole numbers near the limits of 64 bits, and loads whose
/// sums are exact.
fn row() -> impl Strategy<Value = Row> {
    let host = proptest::option::of(prop_oneof!["[ab]", Just(String::new()), Just("b\0".to_owned())]);
    let rank =
        proptest::option::of(prop_oneof![Just(0.0), Just(-0.0), Just(1.5), Just(f64::NAN), Just(-f64::NAN)]);
    let bytes = proptest::option::of(prop_oneof![Just(i64::MAX), Just(i64::MIN), -5i64..5]);
    let slots = proptest::option::of(prop_oneof![Just(u64::MAX), 0u64..5]);
    let load = proptest::option::of((-8i32..8).prop_map(|quarters| f64::from(quarters) / 4.0));
    (host, rank, bytes, slots, load).prop_map(|(host, rank, bytes, slots, load)| Row {
        host,
        rank,
        bytes,
        slots,
        load,
    })
}

proptest! {
    #[test]
    fn any_tree_gives_the_same_bytes(
        shares in proptest::collection::vec(proptest::collection::vec(row(), 0..12), 1..9),
        below in 1usize..4,
    ) {
        let params = every_function(&["host", "rank"]);
        let pieces: Vec<Piece> = (0..).zip(&shares).map(|(number, rows)| sent(number, rows)).collect();
        let flat = up(&params, &pieces).unwrap();
        let mut level = pieces;
        loop {
            let nodes = level.chunks(below.max(if level[0].source == Source::Child(0) { 2 } else { 1 }));
            level = (0..)
                .zip(nodes)
                .map(|(number, below)| Piece { source: Source::Child(number), payload: up(&params, below).unwrap() })
                .collect();
            if level.len() == 1 {
                break;
            }
        }
        prop_assert_eq!(Batch::decode(&level[0].payload).unwrap(), Batch::decode(&flat).unwrap());
        prop_assert_eq!(&level[0].payload, &flat);
    }

    #[test]
    fn figures_match_the_rows_of_each_group(rows in proptest::collection::vec(row(), 1..40)) {
        let params = every_function(&["host"]);
        let given = params.finish(&Batch::decode(&up(&params, &[sent(0, &rows)]).unwrap()).unwrap()).unwrap().0;
        let hosts = given.column_by_name("host").unwrap().as_string::<i32>();
        let mut expected: Vec<Option<&str>> = rows.iter().map(|row| row.host.as_deref()).collect();
        expected.sort();
        expected.dedup();
        prop_assert_eq!(hosts.iter().collect::<Vec<_>>(), expected.clone(), "every host once, null first");
        for (at, host) in expected.into_iter().enumerate() {
            let members: Vec<&Row> = rows.iter().filter(|row| row.host.as_deref() == host).collect();
            let bytes: Vec<i64> = members.iter().filter_map(|row| row.bytes).collect();
            let cell = |name: &str| given.column_by_name(name).unwrap().slice(at, 1);
            let sum = bytes.iter().map(|bytes| i128::from(*bytes)).reduce(|a, b| a + b);
            let average = sum.map(|sum| sum as f64 / bytes.len() as f64);
            prop_assert_eq!(cell("sum(bytes)").as_primitive::<Decimal128Type>().iter().next().unwrap(), sum);
            prop_assert_eq!(cell("count(bytes)").as_primitive::<UInt64Type>().value(0), bytes.len() as u64);
            prop_assert_eq!(cell("average(bytes)").as_primitive::<Float64Type>().iter().next().unwrap(), average);
            let slots = members.iter().filter_map(|row| row.slots);
            prop_assert_eq!(cell("max(slots)").as_primitive::<UInt64Type>().iter().next().unwrap(), slots.max());
            let load = members.iter().filter_map(|row| row.load).min_by(f64::total_cmp);
            prop_assert_eq!(cell("min(load)").as_primitive::<Float64Type>().iter().next().unwrap(), load);
        }
    }
}

#[test]
fn floating_point_keys_are_compared_as_numbers() {
    let rank = |rank| Row { host: None, rank: Some(rank), bytes: Some(1), slots: None, load: None };
    let params = params(&["rank"], vec![aggregate(Function::Count, "bytes")]);
    let rows = [0.0, -0.0, f64::NAN, -f64::NAN, 1.0].map(rank);
    let given = Batch::decode(&up(&params, &[sent(0, &rows)]).unwrap()).unwrap().0;
    let ranks: Vec<String> =
        given.column(0).as_primitive::<Float64Type>().values().iter().map(f64::to_string).collect();
    assert_eq!(ranks, ["0", "1", "NaN"]);
    assert_eq!(given.column(1).as_primitive::<UInt64Type>().values(), &[2, 1, 2]);
}

#[test]
fn too_many_groups_are_refused() {
    let rows: Vec<Row> = (0..3)
        .map(|host| Row { host: Some(host.to_string()), rank: None, bytes: None, slots: None, load: None })
        .collect();
    let params = GroupParams { groups_max: 2, ..params(&["host"], vec![]) };
    let refused = up(&params, &[sent(0, &rows)]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the packet of endpoint 0: there are more groups than the limit `groups_max` of 2"
    );
    assert!(up(&params, &[sent(0, &rows[..2])]).is_ok());
}

/// A batch of any columns, as an endpoint sends it.
fn piece(number: u32, columns: Vec<(&str, ArrayRef)>) -> Piece {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    Piece { source: Source::Endpoint(number), payload: Batch(batch).encode().unwrap() }
}

fn decimals(values: &[Option<i128>]) -> ArrayRef {
    let column = values.iter().copied().collect::<Decimal128Array>();
    Arc::new(column.with_precision_and_scale(15, 2).unwrap())
}

#[test]
fn decimals_dates_texts_and_booleans_are_keys_and_have_sums_and_extremes() {
    let day: ArrayRef = Arc::new(Date32Array::from(vec![Some(3), None, Some(3)]));
    let flag: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a")]));
    let money = decimals(&[Some(150), Some(-25), None]);
    let columns = vec![("day", day), ("flag", flag), ("text", text), ("money", money)];
    let aggregates = vec![
        aggregate(Function::Sum, "money"),
        aggregate(Function::Max, "money"),
        aggregate(Function::Average, "money"),
        aggregate(Function::Min, "text"),
        aggregate(Function::Max, "day"),
    ];
    let params = params(&["day", "flag"], aggregates);
    let below = |number| Piece {
        source: Source::Child(number),
        payload: up(&params, &[piece(number, columns.clone())]).unwrap(),
    };
    let both = Batch::decode(&up(&params, &[below(0), below(1)]).unwrap()).unwrap();
    let given = params.finish(&both).unwrap().0;
    let column = |name: &str| given.column_by_name(name).unwrap();
    assert_eq!(column("day").as_primitive::<Date32Type>().iter().collect::<Vec<_>>(), [None, Some(3)]);
    assert_eq!(column("sum(money)").data_type(), &DataType::Decimal128(38, 2));
    let sums = column("sum(money)").as_primitive::<Decimal128Type>();
    assert_eq!(sums.iter().collect::<Vec<_>>(), [Some(-50), Some(300)]);
    assert_eq!(column("max(money)").data_type(), &DataType::Decimal128(15, 2));
    assert_eq!(column("average(money)").as_primitive::<Float64Type>().values(), &[-0.25, 1.5]);
    assert_eq!(column("min(text)").as_string::<i32>().iter().collect::<Vec<_>>(), [None, Some("a")]);
    assert_eq!(column("max(day)").as_primitive::<Date32Type>().iter().collect::<Vec<_>>(), [None, Some(3)]);
}

#[test]
fn rows_that_an_endpoint_has_aggregated_are_taken_as_partials() {
    let key = |keys: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(keys.to_vec())) };
    let counts: ArrayRef = Arc::new(UInt64Array::from(vec![2, 5]));
    let sums: ArrayRef = decimals(&[Some(100), None]);
    let moments = moments::write([4.0, 8.0].map(|x| Some(moments::Moments::of(x))).into_iter()).unwrap();
    let params = params(
        &["k"],
        vec![
            aggregate(Function::Count, "x"),
            aggregate(Function::Sum, "x"),
            aggregate(Function::Variance, "x"),
        ],
    );
    let columns = |keys| {
        let (counts, sums, moments) = (counts.clone(), sums.clone(), moments.clone());
        vec![("k", key(keys)), ("count(x)", counts), ("sum(x)", sums), ("variance(x)", moments)]
    };
    let folded = up(&params, &[piece(0, columns(&[1, 2])), piece(1, columns(&[2, 1]))]).unwrap();
    let given = params.finish(&Batch::decode(&folded).unwrap()).unwrap().0;
    let column = |name: &str| given.column_by_name(name).unwrap();
    assert_eq!(column("count(x)").as_primitive::<UInt64Type>().values(), &[7, 7]);
    let sums = column("sum(x)").as_primitive::<Decimal128Type>();
    assert_eq!(sums.iter().collect::<Vec<_>>(), [Some(100), Some(100)]);
    assert_eq!(column("variance(x)").as_primitive::<Float64Type>().values(), &[8.0, 8.0]);
    // Raw rows of one endpoint meet aggregated ones of another.
    let of = |function, column: &str| GroupParams {
        keys: vec!["k".to_owned()],
        aggregates: vec![aggregate(function, column)],
        ..GroupParams::default()
    };
    let raw = piece(2, vec![("k", key(&[1, 1])), ("x", key(&[4, 8]))]);
    let mixed = up(&of(Function::Count, "x"), &[piece(0, columns(&[1, 2])), raw]).unwrap();
    let mixed = Batch::decode(&mixed).unwrap().0;
    assert_eq!(mixed.column(1).as_primitive::<UInt64Type>().values(), &[4, 5]);
}

#[test]
fn columns_that_do_not_fit_are_refused_by_name() {
    let raw = |column: ArrayRef| {
        let batch = RecordBatch::try_from_iter([("host", column.clone()), ("up", column)]).unwrap();
        Piece { source: Source::Endpoint(9), payload: Batch(batch).encode().unwrap() }
    };
    let nothing: ArrayRef = Arc::new(NullArray::new(1));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let by_host = |function, column| params(&["host"], vec![aggregate(function, column)]);
    for (params, pieces, why) in [
        (by_host(Function::Sum, "gone"), vec![raw(texts.clone())], "there is no column `gone`"),
        (
            by_host(Function::Count, "up"),
            vec![raw(nothing)],
            "column `host` is of type Null, which is not supported here",
        ),
        (
            by_host(Function::Sum, "up"),
            vec![raw(texts.clone())],
            "column `up` is of type Utf8, which is not supported here",
        ),
        (
            by_host(Function::Count, "up"),
            vec![raw(texts.clone()), raw(numbers.clone())],
            "column `host` is of type Int64, but other batches have type Utf8",
        ),
        (
            by_host(Function::Count, "up"),
            vec![Piece { source: Source::Child(0), ..raw(texts) }],
            "there is no column `count(up)`",
        ),
    ] {
        let from = pieces.last().expect("there is a piece").source;
        let refused = up(&params, &pieces).unwrap_err().to_string();
        assert_eq!(refused, format!("the packet of {from}: {why}"));
    }
    let params = by_host(Function::Sum, "up");
    assert!(up(&params, &[raw(numbers)]).is_ok());
}

#[test]
fn parameters_are_refused_by_name() {
    let refused =
        |params: GroupParams| Grouping::open(&params.encode().unwrap()).err().expect("refused").to_string();
    assert_eq!(refused(GroupParams::default()), "parameter `keys`: at least one key column is required");
    assert_eq!(refused(params(&["a", "b", "a"], vec![])), "parameter `keys`: column `a` is named twice");
    let twice = vec![aggregate(Function::Sum, "x"), aggregate(Function::Sum, "x")];
    assert_eq!(refused(params(&["a"], twice)), "parameter `aggregates`: column `sum(x)` would appear twice");
    let same = vec!["same".to_owned(); 100_000];
    let keys = GroupParams { keys: same, ..GroupParams::default() };
    assert_eq!(refused(keys), "parameter `keys`: 100000 columns are above the limit of 1024");
    let averages = params(&["a"], vec![aggregate(Function::Average, "x"); 512]);
    assert_eq!(refused(averages), "parameter `aggregates`: 1025 columns are above the limit of 1024");
    let none = GroupParams { groups_max: 0, ..params(&["a"], vec![]) };
    assert_eq!(refused(none), "parameter `groups_max`: 0 is not within 1 to 1048576");
}

#[test]
fn every_nan_is_one_value_above_infinity_in_min_and_max() {
    let params = params(&["k"], vec![aggregate(Function::Min, "x"), aggregate(Function::Max, "x")]);
    let key: ArrayRef = Arc::new(Int64Array::from(vec![7; 3]));
    let of = |column: ArrayRef| {
        let pieces = [
            piece(0, vec![("k", key.clone()), ("x", column.clone())]),
            piece(1, vec![("k", key.clone()), ("x", column)]),
        ];
        let given = params.finish(&Batch::decode(&up(&params, &pieces).unwrap()).unwrap()).unwrap().0;
        ["min(x)", "max(x)"].map(|name| given.column_by_name(name).unwrap().clone())
    };
    for nan in [f64::NAN, -f64::NAN] {
        for (rows, least) in
            [([5.0, nan, f64::INFINITY], 5.0), ([f64::NEG_INFINITY, nan, 1.0], f64::NEG_INFINITY)]
        {
            let doubles = of(Arc::new(Float64Array::from(rows.to_vec())));
            let [min, max] = doubles.each_ref().map(|column| column.as_primitive::<Float64Type>().value(0));
            assert_eq!((min, max.to_bits()), (least, f64::NAN.to_bits()));
            let singles: Vec<f32> = rows.iter().map(|&row| row as f32).collect();
            let singles = of(Arc::new(Float32Array::from(singles)));
            let [min, max] = singles.each_ref().map(|column| column.as_primitive::<Float32Type>().value(0));
            assert_eq!((min, max.to_bits()), (least as f32, f32::NAN.to_bits()));
        }
        let [min, max] = of(Arc::new(Float64Array::from(vec![nan; 3])));
        let bits = [min, max].map(|column| column.as_primitive::<Float64Type>().value(0).to_bits());
        assert_eq!(bits, [f64::NAN.to_bits(); 2]);
    }
}

#[test]
fn sums_of_more_than_38_digits_are_errors_however_many_pieces_they_come_from() {
    let params = params(&["k"], vec![aggregate(Function::Sum, "x")]);
    let of = |number, values: &[i128]| {
        let values = values.iter().copied().map(Some).collect::<Decimal128Array>();
        let values: ArrayRef = Arc::new(values.with_precision_and_scale(38, 0).unwrap());
        let key: ArrayRef = Arc::new(Int64Array::from(vec![1; values.len()]));
        piece(number, vec![("k", key), ("x", values)])
    };
    let most = 10i128.pow(38) - 1;
    for sign in [1, -1] {
        assert!(up(&params, &[of(0, &[sign * (most - 1)]), of(1, &[sign])]).is_ok());
        for pieces in [vec![of(0, &[sign * most, sign])], vec![of(0, &[sign * most]), of(1, &[sign])]] {
            let refused = up(&params, &pieces).unwrap_err().to_string();
            let problem = "column `x`: overflow: the sum does not fit into DECIMAL(38), of 128 bits";
            assert!(refused.contains(problem), "{refused}");
        }
    }
}

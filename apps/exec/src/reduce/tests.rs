//! Tests of the ready reduces: examples, and the laws with random texts and trees.

use super::*;
use proptest::prelude::*;
use treefold_operators::Body;

fn text(partial: Partial) -> String {
    String::from_utf8(partial.into_text().unwrap().into()).unwrap()
}

fn lifted(ready: Ready, output: &str) -> String {
    text(ready.lift(0, output.to_owned().into()).unwrap())
}

fn merged(ready: Ready, a: &str, b: &str) -> String {
    let lift = |partition, output: &str| ready.lift(partition, output.to_owned().into()).unwrap();
    text(ready.merge(lift(0, a), lift(1, b)).unwrap())
}

fn refused(ready: Ready, output: &str) -> String {
    ready.lift(0, output.to_owned().into()).unwrap_err().to_string()
}

#[test]
fn sums_add_line_by_line_or_by_key() {
    let sum = Ready::SumLines;
    assert_eq!(merged(sum, "3\n", "4"), "7\n");
    assert_eq!(merged(sum, "3\n0.1\n", "4\n0.2\n5\n"), "7\n0.3\n5\n");
    assert_eq!(merged(sum, "  10  20 300\n", "1 2 3\n"), "11 22 303\n", "columns, as of wc");
    assert_eq!(merged(sum, "b\t2\na\t1\n", "404\t7\na\t-5\n"), "404\t7\na\t-4\nb\t2\n");
    assert_eq!(merged(sum, "", "4\n"), "4\n");
    assert_eq!(lifted(sum, "007\n"), "7\n", "one partition has the same form as many");
    assert_eq!(refused(sum, "3 apples\n"), r#"sum-lines: "apples" in the line "3 apples" is not a number"#);
    assert!(refused(sum, "3\na\t4\n").contains("some lines have a key and a tab"));
    assert!(refused(sum, "\n").contains("expected a number"));
    let both = sum.merge(Partial::text("1 2\n"), Partial::text("1\n")).unwrap_err().to_string();
    assert_eq!(both, r#"sum-lines: expected 2 numbers in the line "1", as in other partitions"#);
}

#[test]
fn counts_of_uniq_are_added_by_key() {
    let counts = "      2 a word\n      1 zebra\n";
    assert_eq!(
        merged(Ready::SumCounts, counts, "3 a word\n1  b\n"),
        "      1  b\n      5 a word\n      1 zebra\n"
    );
    assert!(refused(Ready::SumCounts, "word 2\n").contains("is not a number"));
}

#[test]
fn lines_are_counted() {
    assert_eq!(merged(Ready::Count, "a\n\nb\n", "c"), "4\n");
    assert_eq!(merged(Ready::Count, "", ""), "0\n");
}

#[test]
fn lines_are_sorted_and_ranked() {
    assert_eq!(merged(Ready::MergeSorted(Order::Text), "b\na\n", "B\nb"), "B\na\nb\nb\n");
    assert_eq!(merged(Ready::MergeSorted(Order::TextReverse), "b\na\n", "c\n"), "c\nb\na\n");
    assert_eq!(merged(Ready::MergeSorted(Order::Numeric), "10 x\n9 y\n", "9 a\n"), "9 a\n9 y\n10 x\n");
    assert_eq!(merged(Ready::Unique(Order::Text), "b\na\nb\n", "b\n"), "a\nb\n");
    assert_eq!(merged(Ready::TopK(2), "1 a\n3 b\n2 c\n", "2.5 d\n"), "3 b\n2.5 d\n");
    assert!(refused(Ready::TopK(2), "a 1\n").contains(r#"the first column of "a 1" is not a number"#));
}

#[test]
fn outputs_are_joined_or_kept_by_partition() {
    assert_eq!(merged(Ready::Append, "a", "b\n"), "a\nb\n");
    let lift = |partition, output: &'static str| Ready::Concatenate.lift(partition, output.into()).unwrap();
    let both = Ready::Concatenate.merge(lift(3, "b"), lift(1, "a\n")).unwrap();
    let expected = BTreeMap::from([(1, Printed("a\n".into())), (3, Printed("b".into()))]);
    assert_eq!(both, Partial::ByPartition(expected));
    assert!(Ready::Append.merge(both.clone(), Partial::text("x")).is_err());
    assert!(Ready::Concatenate.merge(both, Partial::text("x")).is_err());
}

#[test]
fn names_and_settings_are_checked() {
    for name in Ready::NAMES {
        let k = (name == "top-k").then_some(3);
        assert_eq!(Ready::named(name, k, None).unwrap().name(), name);
    }
    for name in Order::NAMES {
        assert!(Ready::named("merge-sorted", None, Order::named(name)).is_ok());
    }
    assert!(Ready::named("sum", None, None).unwrap_err().contains("sum-lines, sum-counts"));
    assert!(Ready::named("top-k", None, None).is_err() && Ready::named("top-k", Some(0), None).is_err());
    assert!(Ready::named("count", Some(3), None).is_err());
    assert!(Ready::named("count", None, Some(Order::Numeric)).is_err());
}

/// Every reduce whose result is the same in every tree, for outputs of `number blank word`.
fn of_counts() -> impl Strategy<Value = Ready> {
    let orders = Order::NAMES.map(|name| Order::named(name).unwrap());
    let mut all = vec![Ready::SumCounts, Ready::Count, Ready::TopK(3), Ready::Concatenate];
    all.extend(orders.map(Ready::MergeSorted));
    all.extend(orders.map(Ready::Unique));
    proptest::sample::select(all)
}

fn count_lines() -> impl Strategy<Value = String> {
    proptest::collection::vec(("-?[0-9]{1,3}(\\.[0-9]{1,2})?", "[ab]{0,2}"), 0..6)
        .prop_map(|lines| lines.iter().map(|(number, word)| format!("{number} {word}\n")).collect())
}

/// Outputs for `sum-lines`: the same number of columns everywhere, or keys everywhere.
fn sum_outputs() -> impl Strategy<Value = Vec<String>> {
    any::<bool>().prop_flat_map(|has_keys| {
        let line = ("[ab]{1,2}", "-?[0-9]{1,3}(\\.[0-9]{1,2})?").prop_map(move |(key, number)| {
            if has_keys { format!("{key}\t{number}\n") } else { format!("{number} 7\n") }
        });
        let output = proptest::collection::vec(line, 0..6).prop_map(|lines| lines.concat());
        proptest::collection::vec(output, 1..6)
    })
}

/// Folds the outputs in a random tree.
fn in_a_tree(ready: Ready, outputs: &[String], picks: &[usize]) -> Partial {
    let lift = |(at, output): (usize, &String)| ready.lift(at as u32, output.clone().into()).unwrap();
    let mut left: Vec<Partial> = outputs.iter().enumerate().map(lift).collect();
    for pick in picks.iter().cycle() {
        if left.len() == 1 {
            break;
        }
        let a = left.swap_remove(pick % left.len());
        let b = left.swap_remove((pick / 7) % left.len());
        left.push(ready.merge(a, b).unwrap());
    }
    left.remove(0)
}

fn picks() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(any::<usize>(), 1..8)
}

proptest! {
    #[test]
    fn every_tree_gives_the_same_bytes(
        ready in of_counts(),
        outputs in proptest::collection::vec(count_lines(), 1..6),
        (one, other) in (picks(), picks()),
    ) {
        let result = in_a_tree(ready, &outputs, &one);
        prop_assert_eq!(&result, &in_a_tree(ready, &outputs, &other));
        // The tool over all data at once, for all reduces that do not keep partitions apart.
        if ready != Ready::Concatenate {
            prop_assert_eq!(result, ready.lift(0, outputs.concat().into()).unwrap());
        }
    }

    #[test]
    fn every_tree_gives_the_same_sums(outputs in sum_outputs(), (one, other) in (picks(), picks())) {
        let result = in_a_tree(Ready::SumLines, &outputs, &one);
        prop_assert_eq!(&result, &in_a_tree(Ready::SumLines, &outputs, &other));
        let again = Ready::SumLines.merge(result.clone(), Partial::text("")).unwrap();
        prop_assert_eq!(again, result, "an empty partial adds nothing");
    }
}

#[test]
fn a_declared_reduce_is_read_as_it_was_written() {
    let orders = [Order::Text, Order::TextReverse, Order::Numeric, Order::NumericReverse];
    let ordered = orders.into_iter().flat_map(|order| [Ready::MergeSorted(order), Ready::Unique(order)]);
    let plain = [Ready::SumLines, Ready::SumCounts, Ready::Count, Ready::Concatenate, Ready::Append];
    for ready in ordered.chain(plain).chain([Ready::TopK(1), Ready::TopK(K_MAX)]) {
        assert_eq!(Ready::declared(&ready.to_string()), Some(ready), "{ready}");
    }
    assert_eq!(Ready::Unique(Order::NumericReverse).to_string(), "unique:order=numeric-reverse");
    for wrong in ["", "top-k", "top-k:k=0", "top-k:k=x", "count:k=1", "unique:order=", "sum:x=1", "count:"] {
        assert_eq!(Ready::declared(wrong), None, "{wrong}");
    }
}

#[test]
fn partials_are_folded_by_a_node_without_the_service() {
    let merged = |ready: Ready, outputs: &[&str]| {
        let lift = |(at, output): (usize, &&str)| ready.lift(at as u32, (*output).to_owned().into()).unwrap();
        let parts: Vec<Partial> = outputs.iter().enumerate().map(lift).collect();
        let encoded: Vec<Bytes> = parts.iter().map(|part| part.encode().unwrap()).collect();
        let operator = ready.operator();
        let all = operator.reduce_all(encoded.clone(), &Bytes::new()).now().unwrap().unwrap();
        let pairs =
            encoded.into_iter().reduce(|a, b| operator.reduce(a, b, &Bytes::new()).now().unwrap().unwrap());
        assert_eq!(all, pairs.unwrap(), "{ready}");
        Partial::decode(&all).unwrap()
    };
    assert_eq!(text(merged(Ready::TopK(2), &["3 a\n1 b\n", "2 c\n", "5 d\n"])), "5 d\n3 a\n");
    assert_eq!(text(merged(Ready::SumCounts, &["  1 a\n", "  2 a\n", "1 b\n"])), "      3 a\n      1 b\n");
    let apart = merged(Ready::Concatenate, &["a", "b", "c"]);
    assert_eq!(apart.bytes(), 3);
}

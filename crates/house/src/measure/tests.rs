//! Tests with small cores whose figures are known.

use super::*;
use crate::workspace::{File, rust_files};

fn measured(files: &[(&str, &str)]) -> Measure {
    let file = |&(path, text): &(&str, &str)| File { path: format!("{CORE}{path}"), text: text.to_owned() };
    let files: Vec<File> = [("lib.rs", "")].iter().chain(files).map(file).collect();
    Measure::of(&rust_files(&files)).expect("there are sources of core")
}

fn shared(measure: &Measure) -> Vec<String> {
    let row = |item: &SharedItem| format!("{} {} {}", item.item, item.used_by.join("+"), item.lines);
    measure.shared.iter().map(row).collect()
}

#[test]
fn checkout_without_core_has_no_measure() {
    let files = [File { path: "crates/sim/src/lib.rs".to_owned(), text: "struct A;".to_owned() }];
    assert!(Measure::of(&rust_files(&files)).is_none());
}

#[test]
fn type_of_two_uses_is_shared_with_commonly_called_methods() {
    let state = "pub struct Wave {\n  a: u8,\n}\n// why\nimpl Wave {\n  fn b() {\n  }\n  fn c() {}\n  fn inner() {}\n}\n\
                 impl Clone for Wave { fn d() {} }\nfn other() {}\n";
    let measure = measured(&[
        ("wave/state.rs", state),
        ("call/mod.rs", "use crate::wave::state::Wave;\nfn e(wave: Wave) { wave.b(); wave.c(); }\n"),
        ("stream/mod.rs", "fn f() { crate::wave::state::Wave::b() }\n"),
        ("push/mod.rs", "fn g() { x.b() }\n"),
    ]);
    // Three lines for the struct, two for the braces of the block, one for the block of the trait.
    assert_eq!(shared(&measure), ["wave::state::Wave call+stream 6", "wave::state::Wave::b call+stream 2"]);
    assert_eq!(measure.shared_lines_of_any_two(), 8);
    assert_eq!(measure.shared_lines(&["call", "stream"]), 8);
    assert_eq!(measure.shared_lines(&["call", "push"]), 0);
}

#[test]
fn method_that_a_shared_method_below_calls_is_shared_too() {
    let measure = measured(&[
        (
            "wave/mod.rs",
            "pub struct Wave;\nimpl Wave { pub fn a(&self) { self.inner() }\nfn inner(&self) {}\nfn alone() {} }\n",
        ),
        ("call/mod.rs", "use crate::wave::Wave;\nfn b(wave: Wave) { wave.a() }\n"),
        ("stream/mod.rs", "use crate::wave::Wave;\nfn c(wave: Wave) { wave.a() }\n"),
    ]);
    let expected =
        ["wave::Wave call+stream 1", "wave::Wave::a call+stream 1", "wave::Wave::inner call+stream 1"];
    assert_eq!(shared(&measure), expected);
}

#[test]
fn two_types_with_one_name_are_not_shared() {
    let measure = measured(&[
        ("call/mod.rs", "pub struct Parent;\nfn a(parent: Parent) {}\n"),
        ("stream/mod.rs", "pub struct Parent;\nfn b(parent: Parent) {}\n"),
    ]);
    assert_eq!(shared(&measure), [""; 0]);
}

#[test]
fn item_of_one_use_is_shared_when_another_names_it() {
    let measure = measured(&[
        ("call/repair.rs", "pub fn service_of() {\n  inner()\n}\nfn inner() {}\n"),
        ("stream/mod.rs", "use crate::call::repair;\nfn b() { repair::service_of() }\n"),
    ]);
    assert_eq!(shared(&measure), ["call::repair::service_of call+stream 3"]);
}

#[test]
fn item_that_a_shared_item_below_names_is_shared_too() {
    let measure = measured(&[
        (
            "seat/mod.rs",
            "mod children;\nuse children::Children;\npub struct Seat { row: Children }\nstruct Alone;\n",
        ),
        ("seat/children.rs", "pub struct Children;\n"),
        ("seat/more.rs", "use super::Seat;\nimpl Seat { fn more() {} }\n"),
        ("push/mod.rs", "use crate::seat::Seat;\n"),
        ("stream/mod.rs", "use crate::seat::*;\nstruct Share { seat: Seat }\n"),
    ]);
    let expected = ["seat::Seat stream+push 1", "seat::children::Children stream+push 1"];
    assert_eq!(shared(&measure), expected);
}

#[test]
fn use_in_tests_only_does_not_share() {
    let measure = measured(&[
        ("wave/mod.rs", "pub struct Wave;\n"),
        ("call/mod.rs", "use crate::wave::Wave;\n"),
        ("stream/mod.rs", "fn a() {}\n#[cfg(test)]\nmod tests { use crate::wave::Wave; }\n"),
        ("push/tests.rs", "use crate::wave::Wave;\n"),
    ]);
    assert_eq!(shared(&measure), [""; 0]);
}

#[test]
fn methods_of_a_type_are_summed_over_blocks_and_files() {
    let measure = measured(&[
        ("node.rs", "pub struct Node<P>(P);\nimpl<P> Node<P> { fn a() {} fn b() {} }\n"),
        (
            "call/mod.rs",
            "use crate::node::Node;\nimpl<P: Payload> Node<P> { fn c() {} }\nstruct Own;\nimpl Own { fn d() {} }\n",
        ),
    ]);
    assert_eq!(measure.node, TypeSize { name: "node::Node".to_owned(), methods: 3, blocks: 2 });
    assert_eq!(measure.types.len(), 2);
}

#[test]
fn structs_above_ten_fields_are_listed_and_tables_are_exempt() {
    let fields = |count: usize| (0..count).map(|at| format!("f{at}: u8, ")).collect::<String>();
    let text = format!(
        "struct A {{ {} }}\nstruct B {{ {} }}\nstruct Limits {{ {} }}\nstruct C {{ {} }}\n",
        fields(10),
        fields(11),
        fields(30),
        fields(16)
    );
    let measure = measured(&[("config.rs", &text)]);
    let listed: Vec<_> = measure.structs.iter().map(|size| (size.name.as_str(), size.fields)).collect();
    assert_eq!(listed, [("config::Limits", 30), ("config::C", 16), ("config::B", 11)]);
    assert_eq!(measure.structs_above_limit(), 1);
}

#[test]
fn code_and_comment_lines_are_counted_without_tests_and_blanks() {
    let text = "//! Essay.\n\nfn a() { // why\n  \"// code\n  more\"\n}\n/* one\n\n two */\n#[cfg(test)]\nmod tests {\n  // x\n}";
    let measure =
        measured(&[("wave/mod.rs", text), ("wave/tests.rs", "fn b() {}\n"), ("waves.rs", "fn c() {}\n")]);
    assert_eq!(measure.rooms[0], RoomLines { room: "wave", code: 4, comments: 3 });
}

#[test]
fn json_holds_the_figures_of_the_text() {
    let measure = measured(&[
        ("node.rs", "pub struct Node;\nimpl Node { fn a() {} }\n"),
        ("wave/mod.rs", "pub fn note() {}\n"),
        ("call/mod.rs", "use crate::wave::note;\n"),
        ("push/mod.rs", "use crate::wave::note;\n"),
    ]);
    let json = json(&measure);
    for part in [
        r#""structs_above_limit":0,"fields_max":15,"structs":[],"node":{"name":"node::Node","methods":1,"blocks":1}"#,
        r#""shared_lines":{"any_two":1,"all_three":0,"call_stream":0,"call_push":1,"stream_push":0}"#,
        r#""shared":[{"item":"wave::note","used_by":["call","push"],"lines":1}]"#,
    ] {
        assert!(json.contains(part), "{part} is not in {json}");
    }
    let text = text(&measure);
    for part in
        ["methods of Node<P>: 1 in 1 blocks (at most 120)", "1  wave  (call, push)", "1  by at least two"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

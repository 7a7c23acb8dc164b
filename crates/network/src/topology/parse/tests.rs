//! Each kind of mistake with its place, and MRNet's own files.

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Topology {
    parse(text, &Bounds::DEFAULT).unwrap_or_else(|problems| panic!("{problems} in {text:?}"))
}

/// All problems of a text, each as `line:column kind`.
fn wrong(text: &str) -> Vec<String> {
    wrong_within(text, &Bounds::DEFAULT)
}

fn wrong_within(text: &str, bounds: &Bounds) -> Vec<String> {
    let problems = parse(text, bounds).expect_err(text);
    let told = problems
        .iter()
        .map(|problem| format!("{}:{} {}", problem.place.line, problem.place.column, problem.kind.name()));
    told.collect()
}

/// The message of the first problem.
fn message(text: &str) -> String {
    parse(text, &Bounds::DEFAULT).expect_err(text).first().kind.to_string()
}

#[test]
fn mrnet_files_are_read_unchanged() {
    let flat = "localhost:0 =>\n  localhost:1\n  localhost:2\n  localhost:3\n  localhost:4 ;";
    assert_eq!(read(flat).processes().len(), 5);
    let chain = "localhost:0 =>\n  localhost:1 ;\n\nlocalhost:1 =>\n  localhost:2 ;\n";
    assert_eq!(read(chain).depths(), [0, 1, 2]);
    let several = "# comment\nfoo.example.org:0=>bar-1:0;foo.example.org:0 => bar_2:12 ; # more\n";
    assert_eq!(read(several).to_string(), "foo.example.org:0 => bar-1:0 bar_2:12 ;\n");
    assert_eq!(read("localhost:0 ;").processes().len(), 1);
}

#[test]
fn a_range_is_its_processes_in_order() {
    let terse = read("a:0 => n[1-2]:[0-1] [::1]:0 ;");
    assert_eq!(terse, read("a:0 => n1:0 n1:1 n2:0 n2:1 [::1]:0 ;"));
}

#[test]
fn parents_may_come_after_their_children() {
    assert_eq!(read("b:0 => c:0 ; a:0 => b:0 ;"), read("a:0 => b:0 ; b:0 => c:0 ;"));
}

#[test]
fn unknown_tokens_are_reported() {
    assert_eq!(wrong("a:0 => b:0, c:0 ;"), ["1:11 unknown_token"]);
    assert_eq!(message("a:0 => b:0, c:0 ;"), "`,` is not valid here; separate children by spaces");
    assert_eq!(wrong("a:0 = b:0 ;"), ["1:5 unknown_token"]);
    assert_eq!(wrong("a:0 => => b:0 ;"), ["1:8 unexpected"]);
    assert_eq!(message("a:0 b:0 ;"), "expected `=>` or `;`, found `b`");
    assert_eq!(message(";"), "expected a process, as in node01:0, found `;`");
}

#[test]
fn unfinished_statements_are_reported_at_their_end() {
    assert_eq!(wrong("a:0 => b:0\n"), ["1:11 unfinished"]);
    assert_eq!(wrong("a:0 => b:0\nb:0 => c:0 ;\n"), ["2:1 missing_semicolon"]);
    assert_eq!(wrong("a:0 =>"), ["1:7 unfinished"]);
    assert_eq!(wrong("a:0 => ;"), ["1:5 no_children"]);
}

#[test]
fn names_and_numbers_are_checked() {
    assert_eq!(wrong("a => b:0 ;"), ["1:1 missing_index"]);
    assert_eq!(wrong("a:0 => b ;"), ["1:8 missing_index"]);
    assert_eq!(wrong("a:0 => b:01 ;"), ["1:10 bad_index"]);
    assert_eq!(wrong("a:0 => -b:0 ;"), ["1:8 bad_host"]);
    assert_eq!(wrong("a:0 => 12:0 ;"), ["1:8 bad_host"]);
    assert_eq!(wrong("a:0 => n[2-1]:0 ;"), ["1:8 bad_host"]);
    assert_eq!(wrong("a:0 => n[1-2:0 ;"), ["1:8 bad_host"]);
    assert_eq!(wrong("n[1-2]:0 => a:0 ;"), ["1:1 range_as_parent"]);
}

#[test]
fn all_mistakes_are_reported_at_once() {
    assert_eq!(
        wrong("a:0 => b ;\nb:0 => c:x ;\nc:0 => ? ;"),
        ["1:8 missing_index", "2:10 bad_index", "3:8 unknown_token"]
    );
    let many = "a ;".repeat(50);
    let problems = parse(&many, &Bounds::DEFAULT).unwrap_err();
    assert_eq!((problems.iter().len(), problems.count()), (super::super::problem::PROBLEMS_MAX, 50));
    assert!(problems.to_string().ends_with(", and 49 more problems"), "{problems}");
}

#[test]
fn a_process_has_one_place() {
    assert_eq!(wrong("a:0 => b:0 c:0 b:0 ;"), ["1:16 duplicate_process"]);
    assert_eq!(wrong("a:0 => n[1-3]:0 n2:0 ;"), ["1:17 duplicate_process"]);
    assert_eq!(wrong("a:0 => b:0 c:0 ;\nb:0 => c:0 ;"), ["2:8 two_parents"]);
    let problems = parse("a:0 => b:0 c:0 ;\nb:0 => c:0 ;", &Bounds::DEFAULT).unwrap_err();
    let (place, what) = problems.first().beside.clone().unwrap();
    assert_eq!((place.line, place.column, what.as_str()), (1, 12, "listed here before"));
}

#[test]
fn cycles_are_refused() {
    assert_eq!(wrong("a:0 => a:0 ;"), ["1:1 no_root", "1:8 cycle"]);
    assert_eq!(wrong("r:0 => x:0 ;\na:0 => b:0 ; b:0 => c:0 ; c:0 => a:0 ;"), ["2:34 cycle"]);
    assert!(
        parse("a:0 => b:0 ; b:0 => a:0 ;", &Bounds::DEFAULT)
            .unwrap_err()
            .to_string()
            .contains("every process has a parent")
    );
    let ring: String = (0..100).map(|at| format!("a:{at} => a:{} ;", (at + 1) % 100)).collect();
    let problems = parse(&ring, &Bounds::DEFAULT).unwrap_err();
    let told = problems.iter().map(|problem| problem.kind.to_string()).collect::<Vec<_>>().join("\n");
    let path = "a:0 is above itself: a:0 => a:1 => a:2 => a:3 => a:4 => a:5 => … => a:99 => a:0";
    assert!(told.contains(path), "{told}");
}

#[test]
fn there_is_one_root() {
    assert_eq!(wrong("a:0 => b:0 ;\nc:0 => d:0 ;"), ["2:1 several_roots"]);
    assert_eq!(wrong("a:0 => b:0 ;\nc:0 ;"), ["2:1 orphan"]);
    assert_eq!(wrong("c:0 ;\na:0 => b:0 ;"), ["1:1 orphan"], "a process with children is the root");
    assert_eq!(wrong("# nobody\n"), ["1:1 empty"]);
}

#[test]
fn bounds_are_enforced() {
    let bounds = Bounds { processes_max: 4, fan_out_max: 2, text_bytes_max: 60 };
    assert_eq!(wrong_within("a:0 => b:[1-9] ;", &bounds), ["1:8 too_many_processes"]);
    assert_eq!(wrong_within("a:0 => b:[1-2] ; b:1 => c:[1-2] ;", &bounds), ["1:25 too_many_processes"]);
    assert_eq!(wrong_within("a:0; b:0; c:0; d:0; e:0;", &bounds), ["1:21 too_many_processes"]);
    assert_eq!(wrong_within("a:0 => b:[1-3] ;", &bounds), ["1:1 fan_out_too_large"]);
    assert_eq!(wrong_within(&" ".repeat(61), &bounds), ["1:1 too_long"]);
    assert_eq!(wrong("a:0 => b[1-999999999999]:[0-4294967295] ;"), ["1:8 too_many_processes"]);
    let greedy = "a:0 => n[1-16000]:0 ;".repeat(100_000);
    assert!(
        wrong(&greedy).contains(&"1:29 too_many_processes".to_owned()),
        "the second statement exceeds the limit"
    );
}

#[test]
fn ten_thousand_processes_are_read_and_written() {
    let inner: String = (0..100).map(|at| format!("in:{at} => node[{at}001-{at}099]:0 ;\n")).collect();
    let topology = read(&format!("fe:0 => in:[0-99] ;\n{inner}"));
    assert_eq!(topology.processes().len(), 10_001);
    assert_eq!(read(&topology.to_string()), topology);
}

proptest! {
    #[test]
    fn arbitrary_texts_never_panic(text in "([ab]:[01]|=>|;|\\PC| |\n|n\\[1-3\\]:0){0,40}") {
        if let Err(problems) = parse(&text, &Bounds::DEFAULT) {
            let shown = crate::topology::excerpt::excerpts(&problems, &text, "text", 40);
            prop_assert!(!shown.is_empty());
        }
    }
}

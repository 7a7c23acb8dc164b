//! Drawings in each of the three formats.

use super::dot::to_dot;
use super::svg::to_svg;
use super::text::to_text;
use super::*;

fn drawing(text: &str) -> Drawing {
    Drawing::of(&text.parse().unwrap(), Options::default())
}

const TREE: &str =
    "login:0 => node01:1 node05:1 ; node01:1 => node[01-04]:0 x:0 ; node05:1 => node[05-08]:0 ;";

#[test]
fn similar_leaves_share_a_row() {
    let expected = "\
login:0
├─ node01:1
│  ├─ node[01-04]:0 ×4
│  └─ x:0
└─ node05:1
   └─ node[05-08]:0 ×4
";
    assert_eq!(to_text(&drawing(TREE), None), expected);
}

#[test]
fn every_process_can_have_a_separate_row() {
    let topology: Topology = TREE.parse().unwrap();
    let apart = Drawing::of(&topology, Options { together: false, ..Options::default() });
    assert_eq!(to_text(&apart, None).lines().count(), topology.processes().len());
}

#[test]
fn leaves_between_inner_processes_stay_where_they_are() {
    let mixed = "a:0 => l:0 l:1 b:0 l:2 l:3 ; b:0 => l:4 ;";
    let expected = "a:0\n├─ l:[0-1] ×2\n├─ b:0\n│  └─ l:4\n└─ l:[2-3] ×2\n";
    assert_eq!(to_text(&drawing(mixed), None), expected);
}

#[test]
fn lines_are_no_wider_than_the_terminal() {
    let chain: String = (1..100).map(|at| format!("host:{} => host:{at} ;", at - 1)).collect();
    for columns in [1, 10, 40, 80] {
        let text = to_text(&drawing(&chain), Some(columns));
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
    }
    let text = to_text(&drawing(&chain), Some(80));
    assert!(text.ends_with("└─ host:99\n") && text.lines().last().unwrap().starts_with('…'), "{text}");
}

#[test]
fn rows_are_bounded_and_the_rest_is_counted() {
    let few = Drawing::of(&TREE.parse().unwrap(), Options { rows_max: 3, ..Options::default() });
    let text = to_text(&few, None);
    assert!(text.ends_with("│  ├─ node[01-04]:0 ×4\n… and 6 more processes\n"), "{text}");
    assert!(to_dot(&few).contains("… and 6 more processes"));
    assert!(to_svg(&few).contains("… and 6 more processes"));
}

#[test]
fn dot_has_a_node_for_each_row_and_an_edge_for_each_but_the_root() {
    let dot = to_dot(&drawing(TREE));
    assert_eq!((dot.matches("label=").count(), dot.matches("->").count()), (6, 5));
    assert!(dot.contains("n2 [label=\"node[01-04]:0 ×4\", style=rounded];\n  n1 -> n2;\n"), "{dot}");
}

#[test]
fn svg_has_a_dot_and_a_name_for_each_row() {
    let svg = to_svg(&drawing(TREE));
    assert!(svg.starts_with("<svg "), "{svg}");
    assert_eq!((svg.matches("<circle").count(), svg.matches("<text").count()), (6, 6));
    assert!(svg.contains("node[05-08]:0 ×4"), "{svg}");
}

#[test]
fn a_chain_as_long_as_can_be_is_drawn() {
    let chain: String = (1..16_384).map(|at| format!("h:{} => h:{at} ;", at - 1)).collect();
    let all = Options { rows_max: usize::MAX, ..Options::default() };
    let drawing = Drawing::of(&chain.parse().unwrap(), all);
    assert_eq!(to_text(&drawing, None).lines().count(), 16_384);
    assert_eq!(to_dot(&drawing).matches("->").count(), 16_383);
    assert_eq!(to_svg(&drawing).matches("<circle").count(), 16_384);
}

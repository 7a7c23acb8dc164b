//! Draws in Graphviz's language, which can be rendered in other layouts:
//! `treefold topology draw --as dot | dot -Tpdf`.

use super::{Drawing, Role};
use std::fmt::Write;

/// Draws a topology as DOT.
pub fn to_dot(drawing: &Drawing) -> String {
    let mut text =
        String::from("digraph topology {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (at, row) in drawing.rows.iter().enumerate() {
        let style = match row.role {
            Role::FrontEnd => ", style=bold",
            Role::Inner => "",
            Role::BackEnd => ", style=rounded",
        };
        // Names contain neither quotes nor backslashes: `host::check_host` refuses them.
        let node = writeln!(text, "  n{at} [label=\"{}\"{style}];", row.label());
        let edge = row.parent.map_or(Ok(()), |parent| writeln!(text, "  n{parent} -> n{at};"));
        node.and(edge).expect("invariant: writing to a String never fails");
    }
    if let Some(remainder) = drawing.remainder() {
        text.push_str(&format!("  more [label=\"{remainder}\", shape=plaintext];\n"));
    }
    text.push_str("}\n");
    text
}

//! A drawing in Graphviz's language, for whoever wants another layout: `treefold topology draw --as dot | dot -Tpdf`.

use super::{Drawing, Role};
use std::fmt::Write;

/// Draws it.
pub fn to_dot(drawing: &Drawing) -> String {
    let mut text =
        String::from("digraph topology {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (at, row) in drawing.rows.iter().enumerate() {
        let style = match row.role {
            Role::FrontEnd => ", style=bold",
            Role::Inner => "",
            Role::BackEnd => ", style=rounded",
        };
        // Names hold neither quotes nor backslashes: `host::check_host` sees to that.
        let node = writeln!(text, "  n{at} [label=\"{}\"{style}];", row.label());
        let edge = row.parent.map_or(Ok(()), |parent| writeln!(text, "  n{parent} -> n{at};"));
        node.and(edge).expect("invariant: a String takes whatever is written");
    }
    if let Some(remainder) = drawing.remainder() {
        text.push_str(&format!("  more [label=\"{remainder}\", shape=plaintext];\n"));
    }
    text.push_str("}\n");
    text
}

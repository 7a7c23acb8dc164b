//! Limits the size of core's types.
//!
//! A struct with many fields hides which of them belong together, and each method of a type may touch all of
//! its fields. So a struct of core has few fields, and gives a reason if it has more. The node, which holds
//! everything, leaves most methods to its parts. Tables of limits, tuning and configuration may be as long as
//! the list of their settings, because their fields do not change together.

use crate::Violation;
use crate::types::{impls, structs};
use crate::workspace::{CORE, RustFile};

/// Most fields of a struct.
pub const FIELDS_MAX: usize = 15;
/// Most fields of a struct whose doc comment gives no reason for more.
pub const FIELDS_WITHOUT_REASON_MAX: usize = 10;
/// Most methods of the node, over all its `impl` blocks.
pub const NODE_METHODS_MAX: usize = 120;

/// The word that marks the reason in a doc comment.
const REASON: &str = "because";
/// The node's type.
const NODE: &str = "Node";
/// Last words of the names of tables.
const TABLES: [&str; 3] = ["Limits", "Tuning", "Config"];

/// Tells by its name whether a struct is a table.
pub fn is_table(name: &str) -> bool {
    TABLES.iter().any(|word| name.ends_with(word))
}

/// Tells whether a path names the node.
pub fn is_node(path: &str) -> bool {
    path.rsplit("::").next() == Some(NODE)
}

/// Limits the fields of core's structs.
pub fn check_fields(file: &RustFile) -> Vec<Violation> {
    if !is_core(file) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for one in structs(file).iter().filter(|one| !is_table(one.name)) {
        let (name, fields) = (one.name, one.fields);
        let has_reason = one.docs.split(|letter: char| !letter.is_alphabetic()).any(is_reason);
        let rule = if fields > FIELDS_MAX {
            format!(
                "struct {name} has {fields} fields; a struct of core has at most {FIELDS_MAX}: split it into fields that change together"
            )
        } else if fields > FIELDS_WITHOUT_REASON_MAX && !has_reason {
            format!(
                "struct {name} has {fields} fields; above {FIELDS_WITHOUT_REASON_MAX}, its doc comment must give the reason with the word `{REASON}`"
            )
        } else {
            continue;
        };
        found.push(Violation::at(&file.file.path, file.line(one.at), rule));
    }
    found
}

/// Limits the methods of the node. Reports a violation at the node's largest block.
pub fn check_node(files: &[RustFile]) -> Vec<Violation> {
    let (mut methods, mut blocks, mut largest) = (0, 0, (0, "", 0));
    for file in files.iter().filter(|file| is_core(file)) {
        let code = file.code_without_tests();
        for block in impls(&code).iter().filter(|block| is_node(block.of)) {
            methods += block.methods;
            blocks += 1;
            largest = largest.max((block.methods, file.file.path.as_str(), file.line(block.span.start)));
        }
    }
    if methods <= NODE_METHODS_MAX {
        return Vec::new();
    }
    let rule = format!(
        "{NODE} has {methods} methods in {blocks} impl blocks; it may have at most {NODE_METHODS_MAX}: move a method to the part whose fields it uses"
    );
    vec![Violation::at(largest.1, largest.2, rule)]
}

fn is_core(file: &RustFile) -> bool {
    file.file.path.starts_with(CORE) && !file.is_test
}

fn is_reason(word: &str) -> bool {
    word.eq_ignore_ascii_case(REASON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    fn core(text: &str) -> RustFile {
        let path = format!("{CORE}wave/state.rs");
        RustFile::new(File { path, text: text.to_owned() }, false)
    }

    fn with_fields(docs: &str, name: &str, count: usize) -> String {
        let fields: String = (0..count).map(|at| format!("    field_{at}: Map<u8, (u8, u8)>,\n")).collect();
        format!("{docs}\n#[derive(Debug)]\npub(crate) struct {name}<P> {{\n{fields}}}\n")
    }

    fn with_methods(of: &str, count: usize) -> String {
        format!("impl<P: Payload> {of}<P> {{\n{}}}\n", "    fn one() { two(|| 3) }\n".repeat(count))
    }

    #[test]
    fn struct_with_more_than_ten_fields_needs_a_reason() {
        assert_eq!(check_fields(&core(&with_fields("/// A wave.", "Wave", 10))), []);
        let found = check_fields(&core(&with_fields("/// A wave.", "Wave", 11)));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "crates/core/src/wave/state.rs:3: struct Wave has 11 fields; above 10, its doc comment must give the reason with the word `because`"
        );
    }

    #[test]
    fn reason_in_the_doc_comment_allows_fifteen_fields_and_no_more() {
        let docs = "/// A wave.\n///\n/// Fifteen fields, because a repair reads all of them.";
        assert_eq!(check_fields(&core(&with_fields(docs, "Wave", 15))), []);
        let found = check_fields(&core(&with_fields(docs, "Wave", 16)));
        assert!(found[0].rule.starts_with("struct Wave has 16 fields; a struct of core has at most 15"));
    }

    #[test]
    fn reason_outside_the_doc_comment_does_not_count() {
        let elsewhere = "/// Because.\nstruct Other;\n// because\n/// A wave.";
        assert_eq!(check_fields(&core(&with_fields(elsewhere, "Wave", 11))).len(), 1);
    }

    #[test]
    fn field_limit_exempts_tables_tests_and_other_crates() {
        for name in ["Limits", "StreamTuning", "NodeConfig"] {
            assert_eq!(check_fields(&core(&with_fields("", name, 40))), []);
        }
        assert_eq!(check_fields(&core(&with_fields("", "LimitsKept", 40))).len(), 1);
        let large = with_fields("", "Wave", 40);
        assert_eq!(check_fields(&core(&format!("#[cfg(test)]\nmod tests {{\n{large}}}"))), []);
        let file = File { path: "crates/sim/src/world.rs".to_owned(), text: large };
        assert_eq!(check_fields(&RustFile::new(file, false)), []);
    }

    #[test]
    fn methods_of_the_node_are_summed_over_all_its_blocks() {
        let blocks = |last| [core(&with_methods("Node", 70)), core(&with_methods("crate::node::Node", last))];
        assert_eq!(check_node(&blocks(50)), []);
        let found = check_node(&blocks(51));
        assert_eq!(found.len(), 1);
        assert!(found[0].rule.starts_with("Node has 121 methods in 2 impl blocks; it may have at most 120"));
    }

    #[test]
    fn node_methods_exclude_other_types_and_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", with_methods("Node", 200));
        assert_eq!(check_node(&[core(&with_methods("NodeId", 200)), core(&tests)]), []);
    }
}

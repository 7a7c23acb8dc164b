//! Rejects names that say nothing.
//!
//! A module that is not named after a concept collects unrelated code. A `get_` repeats what the parentheses
//! say.

use crate::Violation;
use crate::outline::{definitions, trait_impls};
use crate::workspace::RustFile;

/// Module and file names that name no concept.
const EMPTY_MODULES: [&str; 7] = ["util", "utils", "manager", "common", "helper", "helpers", "misc"];
/// Last words of type names that name no concept.
const EMPTY_TYPES: [&str; 6] = ["Util", "Utils", "Manager", "Helper", "Helpers", "Misc"];

/// Applies the rules of this file.
pub fn check(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    let path = &file.file.path;
    for part in path.trim_end_matches(".rs").split('/').filter(|part| EMPTY_MODULES.contains(part)) {
        found.push(Violation::at(path, 1, format!("a file named {part} is named after no concept")));
    }
    let trait_impls = trait_impls(&file.source.code);
    let given = |at| trait_impls.iter().any(|span| span.contains(&at));
    for definition in definitions(&file.source.code) {
        let name = definition.name;
        let rule = match definition.keyword {
            "fn" if name.starts_with("get_") && !given(definition.at) => {
                format!("fn {name}: remove the prefix get_")
            }
            "mod" if EMPTY_MODULES.contains(&name) => format!("mod {name} is named after no concept"),
            "struct" | "enum" | "trait" | "type" if EMPTY_TYPES.iter().any(|word| name.ends_with(word)) => {
                format!("{name} is named after no concept")
            }
            _ => continue,
        };
        found.push(Violation::at(path, file.line(definition.at), rule));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    #[test]
    fn empty_names_are_found_in_paths_modules_functions_and_types() {
        let text = "mod misc;\nimpl Store for Disk { fn get_handle() {} }\nfn get_load() {}\nstruct PeerManager;\nfn common_prefix() {}\nfn target_load() {}\n";
        let file = File { path: "crates/x/src/utils.rs".to_owned(), text: text.to_owned() };
        let lines: Vec<usize> = check(&RustFile::new(file, false)).iter().map(|found| found.line).collect();
        assert_eq!(lines, [1, 1, 3, 4]);
    }
}

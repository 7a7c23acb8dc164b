//! Resolves a path to the item of a crate that it names.
//!
//! `Parent` in one file and `Parent` in another can be two types, so a name alone does not identify an item.
//! This module reads the modules of one crate, their definitions and their `use` declarations, and follows a
//! path through them. It has no knowledge of types: it does not see a method or a field that is used through
//! a value, because such a use names no path.

use crate::outline::{item_end, words};
use crate::types::split_list;
use std::collections::{BTreeMap, BTreeSet};

/// Keywords of items that have a name.
const KEYWORDS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
/// Largest number of re-exports that a path is followed through.
const STEPS_MAX: usize = 16;

/// The path of an item: its module and its name, as in `wave::state::Wave`.
pub type ItemPath = String;

/// The definitions and the `use` declarations of a crate's modules.
#[derive(Debug, Default)]
pub struct Paths {
    modules: BTreeMap<String, Module>,
}

/// One module, by its path from the crate's root.
#[derive(Debug, Default)]
struct Module {
    items: BTreeSet<String>,
    /// Local names, each with the path that a `use` gives for it.
    uses: BTreeMap<String, String>,
    globs: Vec<String>,
}

/// A top-level item of a file, or one `use`; tests are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Byte offset, attributes included.
    pub at: usize,
    /// Its code.
    pub code: &'a str,
    /// First keyword of the item: `struct`, `impl`, `use` and so on; empty if the item has no such keyword.
    pub keyword: &'a str,
    /// The name after the keyword; empty for an `impl` block or a `use`.
    pub name: &'a str,
}

/// Returns the module of a file below `src/`, as in `wave::state`. It is empty for the root.
pub fn module_of(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if matches!(stem, "lib" | "main") { String::new() } else { stem.replace('/', "::") }
}

/// Splits a code into its pieces, in order.
pub fn pieces(code: &str) -> Vec<Piece<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < code.len() {
        let end = item_end(code, at);
        let piece = &code[at..end];
        let mut named = words(piece).peekable();
        let (mut keyword, mut name) = ("", "");
        while let Some((offset, word)) = named.next() {
            // attributes and `pub(crate)` come first, and `const fn` names a function
            let is_const_fn = word == "const" && named.peek().is_some_and(|(_, next)| *next == "fn");
            let begins = KEYWORDS.contains(&word) || matches!(word, "impl" | "use" | "mod" | "macro_rules");
            if begins && !is_const_fn && !in_brackets(piece, offset) {
                keyword = word;
                if !matches!(word, "impl" | "use") {
                    name = named.next().map_or("", |(_, name)| name);
                }
                break;
            }
        }
        found.push(Piece { at, code: piece, keyword, name });
        at = end;
    }
    found
}

/// Returns every path that a code names, without spaces around `::`.
///
/// A name after a dot is left out, because it is a field or a method.
pub fn named_paths(code: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut before = 0;
    for (at, word) in words(code) {
        let between = code[before..at].trim();
        match found.last_mut() {
            Some(path) if between == "::" => {
                path.push_str("::");
                path.push_str(word);
            }
            _ if between.ends_with('.') && !between.ends_with("..") => found.push(String::new()),
            _ => found.push(word.to_owned()),
        }
        before = at + word.len();
    }
    found.retain(|path| !path.is_empty() && !path.starts_with("::"));
    found
}

/// Returns the names of the methods that a code calls, on a value (`part.fold()`) or by a path
/// (`Part::fold`).
pub fn called_methods(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, word) in words(code) {
        let (before, after) = (code[..at].trim_end(), code[at + word.len()..].trim_start());
        let is_call = before.ends_with('.') && (after.starts_with('(') || after.starts_with("::"));
        if is_call || before.ends_with("::") {
            found.insert(word.to_owned());
        }
    }
    found
}

/// Returns the paths of one `use`, each with the name that it brings in. The name of a glob is `*`.
pub fn used_paths(declaration: &str) -> Vec<(String, String)> {
    let Some((at, _)) = words(declaration).find(|(_, word)| *word == "use") else { return Vec::new() };
    let mut found = Vec::new();
    use_tree(declaration[at + 3..].trim().trim_end_matches(';'), "", &mut found);
    found
}

fn use_tree(tree: &str, above: &str, found: &mut Vec<(String, String)>) {
    let joined = |path: &str| match (above, path.trim().trim_end_matches("::")) {
        (above, "" | "self") => above.to_owned(),
        ("", path) => path.to_owned(),
        (above, path) => format!("{above}::{path}"),
    };
    if let Some((head, list)) = tree.split_once('{') {
        let list = list.rfind('}').map_or(list, |end| &list[..end]);
        split_list(list).into_iter().for_each(|part| use_tree(part, &joined(head), found));
    } else if let Some(head) = tree.strip_suffix('*') {
        found.push(("*".to_owned(), joined(head)));
    } else {
        let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
        let path = joined(path);
        let last = path.rsplit("::").next().unwrap_or_default().to_owned();
        found.push((name.map_or(last, |name| name.trim().to_owned()), path));
    }
}

impl Paths {
    /// Adds a module and its ancestors. The tests in `code` must be blanked.
    pub fn add(&mut self, module: &str, code: &str) {
        for (end, _) in module.match_indices("::") {
            self.modules.entry(module[..end].to_owned()).or_default();
        }
        let entry = self.modules.entry(module.to_owned()).or_default();
        for piece in pieces(code) {
            if KEYWORDS.contains(&piece.keyword) {
                entry.items.insert(piece.name.to_owned());
            } else if piece.keyword == "use" {
                for (name, path) in used_paths(piece.code) {
                    if name == "*" {
                        entry.globs.push(path);
                    } else {
                        entry.uses.insert(name, path);
                    }
                }
            }
        }
    }

    /// Returns the item that a path names in a module.
    ///
    /// Returns `None` if the path names a module or an item of another crate.
    pub fn item(&self, module: &str, path: &str) -> Option<ItemPath> {
        self.follow(module, path, STEPS_MAX)
    }

    fn follow(&self, module: &str, path: &str, steps: usize) -> Option<ItemPath> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        let above = module.rsplit_once("::").map_or("", |(above, _)| above);
        match first {
            "crate" => return self.below("", rest, steps),
            "self" => return self.below(module, rest, steps),
            "super" => {
                return if rest.starts_with("super") {
                    self.follow(above, rest, steps)
                } else {
                    self.below(above, rest, steps)
                };
            }
            _ => {}
        }
        self.below(module, path, steps)
    }

    /// Returns the item that a path names if the path begins inside the module.
    fn below(&self, module: &str, path: &str, steps: usize) -> Option<ItemPath> {
        let steps = steps.checked_sub(1)?;
        let here = self.modules.get(module)?;
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        let join = |path: &str, more: &str| match (path, more) {
            ("", one) | (one, "") => one.to_owned(),
            (path, more) => format!("{path}::{more}"),
        };
        let inner = join(module, first);
        if here.items.contains(first) {
            return Some(inner);
        }
        if self.modules.contains_key(&inner) && !first.is_empty() {
            return self.below(&inner, rest, steps);
        }
        if let Some(used) = here.uses.get(first)
            && used != first
        {
            return self.follow(module, &join(used, rest), steps);
        }
        here.globs.iter().find_map(|glob| self.follow(module, &join(glob, path), steps))
    }
}

/// Tells whether the byte at `at` is in brackets: of an attribute, of `pub(…)`, or of a macro's call.
fn in_brackets(piece: &str, at: usize) -> bool {
    let count = |brackets: [char; 3]| piece[..at].matches(brackets).count();
    count(['(', '[', '{']) > count([')', ']', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(modules: &[(&str, &str)]) -> Paths {
        let mut paths = Paths::default();
        modules.iter().for_each(|(module, code)| paths.add(module, code));
        paths
    }

    #[test]
    fn use_declarations_are_split_into_names_and_paths() {
        let code = "pub(crate) use crate::a::{self, b::{C, D as E}, f::*};";
        let expected =
            [("a", "crate::a"), ("C", "crate::a::b::C"), ("E", "crate::a::b::D"), ("*", "crate::a::f")];
        assert_eq!(used_paths(code), expected.map(|(name, path)| (name.to_owned(), path.to_owned())));
    }

    #[test]
    fn same_name_in_two_modules_is_two_items() {
        let paths = paths(&[
            ("", "mod a; mod b;"),
            ("a", "pub struct Parent;"),
            ("b", "mod c; pub use c::Parent; use crate::a::Parent as Other;"),
            ("b::c", "use super::super::a; pub struct Parent { x: a::Parent }"),
        ]);
        assert_eq!(paths.item("b", "Parent").as_deref(), Some("b::c::Parent"));
        assert_eq!(paths.item("b", "Other").as_deref(), Some("a::Parent"));
        assert_eq!(paths.item("b::c", "a::Parent::new").as_deref(), Some("a::Parent"));
        assert_eq!(paths.item("", "crate::b::Parent").as_deref(), Some("b::c::Parent"));
        assert_eq!(paths.item("b", "alloc::vec::Vec"), None);
        assert_eq!(paths.item("", "b::c"), None);
    }

    #[test]
    fn following_globs_and_cycles_terminates() {
        let paths = paths(&[
            ("", "mod a; mod b;"),
            ("a", "pub use crate::b::*; fn c() {}"),
            ("b", "use super::a::*;"),
        ]);
        assert_eq!(paths.item("b", "c").as_deref(), Some("a::c"));
        assert_eq!(paths.item("b", "d"), None);
    }

    #[test]
    fn pieces_have_the_keyword_and_the_name_of_their_item() {
        let code = "use a::B;\n#[cfg_attr(x, derive(y))] pub(crate) const fn c() {}\nimpl B { fn d() {} }\nconst E: u8 = 1;";
        let found: Vec<_> = pieces(code).iter().map(|piece| (piece.keyword, piece.name)).collect();
        assert_eq!(found, [("use", ""), ("fn", "c"), ("impl", ""), ("const", "E")]);
    }

    #[test]
    fn methods_are_called_on_values_and_by_paths() {
        let code = "a.b().c::<D>(e.f, Self::g); h();";
        assert_eq!(called_methods(code), ["b", "c", "g"].map(str::to_owned).into());
    }

    #[test]
    fn fields_and_methods_are_not_paths() {
        assert_eq!(named_paths("a.note(b::c(d), 0..e) + x::<F>()"), ["a", "b::c", "d", "0", "e", "x", "F"]);
    }
}

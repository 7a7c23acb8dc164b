//! Measures the shape of core in figures.
//!
//! Core is one mechanism with several uses. Three counts show whether the code agrees: the fields of its
//! structs, the methods of its largest types, and the lines of code that more than one use needs. The rules
//! of [`rule::types`](crate::rule::types) limit the first two. The third is for comparing two commits:
//!
//! ```text
//! cargo run -p treefold-house -- measure                  # this workspace
//! cargo run -p treefold-house -- measure ../another -o json
//! ```

mod print;
pub mod sharing;

pub use print::{json, text};

use crate::paths::{Paths, module_of};
use crate::rule::types::{FIELDS_MAX, FIELDS_WITHOUT_REASON_MAX, is_node, is_table};
use crate::types::{impls, structs};
use crate::workspace::{CORE, RustFile};
use sharing::SharedItem;
use std::collections::BTreeMap;
use std::ops::Range;

/// Rooms whose lines are counted. The first four, the mechanism and its uses, existed before `seat` did.
pub const ROOMS: [&str; 6] = ["wave", "call", "push", "stream", "seat", "node"];
/// Types listed with their methods.
pub const TYPES_LISTED: usize = 10;

/// The figures of one checkout.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Structs with more than [`FIELDS_WITHOUT_REASON_MAX`] fields, largest first.
    pub structs: Vec<StructSize>,
    /// Methods in the `impl … Node<P>` blocks, with or without a trait.
    pub node: TypeSize,
    /// The types with the most methods, largest first.
    pub types: Vec<TypeSize>,
    /// Lines by room, in the order of [`ROOMS`].
    pub rooms: Vec<RoomLines>,
    /// Items that more than one of call, stream and push uses.
    pub shared: Vec<SharedItem>,
}

/// A struct and its number of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructSize {
    /// As in `node::Node`.
    pub name: String,
    /// Its fields.
    pub fields: usize,
    /// Whether it is a table of limits, tuning or configuration. Tables are exempt from the limit on fields.
    pub is_table: bool,
}

/// A type and its methods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeSize {
    /// As in `node::Node`.
    pub name: String,
    /// Functions in its `impl` blocks.
    pub methods: usize,
    /// Its `impl` blocks that have methods.
    pub blocks: usize,
}

/// Lines of one room; tests are left out. A line with code and a comment counts as code; blank lines do not
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomLines {
    /// One of [`ROOMS`].
    pub room: &'static str,
    /// Lines with code.
    pub code: usize,
    /// Lines with only a comment.
    pub comments: usize,
}

impl Measure {
    /// Measures core's sources among `files`. Returns `None` if `files` contains none.
    pub fn of(files: &[RustFile]) -> Option<Self> {
        let core: Vec<RustFile> =
            files.iter().filter(|file| file.file.path.starts_with(CORE) && !file.is_test).cloned().collect();
        if core.is_empty() {
            return None;
        }
        let mut paths = Paths::default();
        core.iter().for_each(|file| paths.add(&module(file), &file.code_without_tests()));
        let mut types = type_sizes(&core, &paths);
        let node = types.iter().find(|size| is_node(&size.name)).cloned().unwrap_or_default();
        types.truncate(TYPES_LISTED);
        Some(Self {
            structs: struct_sizes(&core),
            node,
            types,
            rooms: ROOMS.into_iter().map(|room| room_lines(&core, room)).collect(),
            shared: sharing::shared(&core, &paths),
        })
    }

    /// Counts the structs above the limit; tables are left out.
    pub fn structs_above_limit(&self) -> usize {
        self.structs.iter().filter(|size| !size.is_table && size.fields > FIELDS_MAX).count()
    }

    /// Counts the lines of code that each of `uses` needs. Other rooms may need them too.
    pub fn shared_lines(&self, uses: &[&str]) -> usize {
        let by_all = |item: &&SharedItem| uses.iter().all(|room| item.used_by.contains(room));
        self.shared.iter().filter(by_all).map(|item| item.lines).sum()
    }

    /// Counts the lines of code that at least two of call, stream and push need.
    pub fn shared_lines_of_any_two(&self) -> usize {
        self.shared_lines(&[])
    }
}

fn module(file: &RustFile) -> String {
    module_of(file.file.path.strip_prefix(CORE).unwrap_or(&file.file.path))
}

fn struct_sizes(core: &[RustFile]) -> Vec<StructSize> {
    let mut sizes: Vec<StructSize> = Vec::new();
    for file in core {
        let large = structs(file).into_iter().filter(|found| found.fields > FIELDS_WITHOUT_REASON_MAX);
        sizes.extend(large.map(|found| StructSize {
            name: joined(&module(file), found.name),
            fields: found.fields,
            is_table: is_table(found.name),
        }));
    }
    sizes.sort_by(|a, b| b.fields.cmp(&a.fields).then_with(|| a.name.cmp(&b.name)));
    sizes
}

fn type_sizes(core: &[RustFile], paths: &Paths) -> Vec<TypeSize> {
    let mut sizes: BTreeMap<String, TypeSize> = BTreeMap::new();
    for file in core {
        let (code, module) = (file.code_without_tests(), module(file));
        for block in impls(&code).iter().filter(|block| block.methods > 0) {
            let name = paths.item(&module, block.of).unwrap_or_else(|| block.of.to_owned());
            let size = sizes.entry(name.clone()).or_insert(TypeSize { name, ..TypeSize::default() });
            size.methods += block.methods;
            size.blocks += 1;
        }
    }
    let mut sizes: Vec<TypeSize> = sizes.into_values().collect();
    sizes.sort_by(|a, b| b.methods.cmp(&a.methods).then_with(|| a.name.cmp(&b.name)));
    sizes
}

fn room_lines(core: &[RustFile], room: &'static str) -> RoomLines {
    let mut lines = RoomLines { room, code: 0, comments: 0 };
    for file in core.iter().filter(|file| module(file).split("::").next() == Some(room)) {
        let (code, comments) = lines_of(file, 0..file.file.text.len());
        lines.code += code;
        lines.comments += comments;
    }
    lines
}

fn joined(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Counts the lines with code in a part of a file; tests are left out.
fn code_lines(file: &RustFile, part: Range<usize>) -> usize {
    lines_of(file, part).0
}

/// Counts the lines with code, and the lines with only a comment, in a part of a file. Tests are left out.
fn lines_of(file: &RustFile, part: Range<usize>) -> (usize, usize) {
    let (text, comments) = (file.file.text.as_bytes(), file.source.comments.as_bytes());
    let (mut code, mut commented) = (0, 0);
    let (mut has_code, mut has_comment) = (false, false);
    let mut end_line = |has_code: &mut bool, has_comment: &mut bool| {
        code += usize::from(*has_code);
        commented += usize::from(*has_comment && !*has_code);
        (*has_code, *has_comment) = (false, false);
    };
    for at in part {
        if text[at] == b'\n' {
            end_line(&mut has_code, &mut has_comment);
        } else if !text[at].is_ascii_whitespace() && !file.is_test_at(at) {
            has_comment |= comments[at] != b' ';
            has_code |= comments[at] == b' ';
        }
    }
    end_line(&mut has_code, &mut has_comment);
    (code, commented)
}

#[cfg(test)]
mod tests;

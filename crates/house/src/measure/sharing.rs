//! Counts the code that more than one of calls, streams and push waves uses.
//!
//! The count covers the items of core's rooms `call`, `stream`, `push`, `wave` and `seat`: top-level
//! functions, types, traits and constants, and the methods that a type gets in its own room. Each of `call`,
//! `stream` and `push` *uses* an item if
//!
//! - the item is defined in that room, or
//! - the room's code names it, by a path or by a name that a `use` brings in (paths are resolved, so two
//!   types called `Parent` stay apart), or
//! - the item is a method, the room uses its type, and the room's code calls a method of that name, or
//! - an item of `wave` or `seat` that the room uses meets one of these conditions.
//!
//! An item that two or three of these rooms use is shared. The figure is the number of its lines of code.
//! Tests, comments, blank lines and `use` lines do not count.
//!
//! The figure is too high in one respect and too low in another, in the same way for each commit. It is too
//! high because types are not inferred: a method counts as used if the room calls another type's method of
//! the same name. It is too low because a use through a field is not seen if the room never names the field's
//! type. So the methods of `Node` count as used only by the room that defines them. The items of the room
//! `node`, which holds what all uses need, are not counted.

use crate::measure::code_lines;
use crate::paths::{ItemPath, Paths, Piece, called_methods, module_of, named_paths, pieces, used_paths};
use crate::types::impls;
use crate::workspace::{CORE, RustFile};
use std::collections::{BTreeMap, BTreeSet};

/// The uses of the mechanism: the rooms whose code is compared.
pub const USES: [&str; 3] = ["call", "stream", "push"];
/// Rooms below the uses.
pub const BELOW: [&str; 2] = ["wave", "seat"];

/// An item that more than one use needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedItem {
    /// Module of the item, as in `wave::state`.
    pub module: String,
    /// The item, as in `wave::state::Wave`, or `wave::state::Wave::is_open` for a method.
    pub item: ItemPath,
    /// Some of [`USES`].
    pub used_by: Vec<&'static str>,
    /// Lines of its code.
    pub lines: usize,
}

/// The item or method that a part belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    /// A type, or another item that has a path.
    item: ItemPath,
    method: Option<String>,
}

/// A part of a file, with its owner and the names that it uses.
struct Part {
    room: String,
    /// Module of the file.
    module: String,
    /// `None` for a `use`, and for an `impl` block of another room's type.
    owner: Option<Owner>,
    names: BTreeSet<ItemPath>,
    calls: BTreeSet<String>,
    lines: usize,
}

/// Returns the shared items, in the order of their modules.
pub fn shared(files: &[RustFile], paths: &Paths) -> Vec<SharedItem> {
    let parts: Vec<Part> = files.iter().flat_map(|file| parts_of(file, paths)).collect();
    let used = USES.map(|room| (room, used_by(room, &parts)));
    let mut lines: BTreeMap<(&str, &Owner), usize> = BTreeMap::new();
    for part in &parts {
        if let Some(owner) = &part.owner {
            *lines.entry((&part.module, owner)).or_default() += part.lines;
        }
    }
    let items = lines.into_iter().filter_map(|((module, owner), lines)| {
        let used_by: Vec<_> =
            used.iter().filter(|(_, used)| used.contains(owner)).map(|&(room, _)| room).collect();
        let item = match &owner.method {
            Some(method) => format!("{}::{method}", owner.item),
            None => owner.item.clone(),
        };
        (used_by.len() > 1 && lines > 0).then(|| SharedItem {
            module: module.to_owned(),
            item,
            used_by,
            lines,
        })
    });
    items.collect()
}

/// Returns the first module of a path.
fn room_of(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

fn parts_of(file: &RustFile, paths: &Paths) -> Vec<Part> {
    let Some(below) = file.file.path.strip_prefix(CORE) else { return Vec::new() };
    let module = module_of(below);
    let room = room_of(&module);
    if file.is_test || !USES.contains(&room) && !BELOW.contains(&room) {
        return Vec::new();
    }
    let code = file.code_without_tests();
    let mut parts = Vec::new();
    for piece in pieces(&code) {
        let item = match piece.keyword {
            "impl" => impls(piece.code).first().and_then(|block| paths.item(&module, block.of)),
            "use" | "mod" | "macro_rules" | "" => None,
            _ => paths.item(&module, piece.name),
        };
        let owner = item.filter(|item| room_of(item) == room).map(|item| Owner { item, method: None });
        let whole = part(file, paths, &module, owner, &piece);
        if piece.keyword == "impl" && whole.owner.is_some() && !impls(piece.code)[0].has_trait {
            parts.extend(members(file, paths, whole, &piece));
        } else {
            parts.push(whole);
        }
    }
    parts
}

/// Splits an `impl` block without a trait into its methods and a rest, which belongs to the type.
fn members(file: &RustFile, paths: &Paths, mut whole: Part, block: &Piece<'_>) -> Vec<Part> {
    let open = block.code.find('{').map_or(block.code.len(), |open| open + 1);
    let close = block.code.rfind('}').unwrap_or(block.code.len()).max(open);
    let mut found = Vec::new();
    for piece in pieces(&block.code[open..close]).iter().filter(|piece| piece.keyword == "fn") {
        let owner = whole.owner.clone().map(|owner| Owner { method: Some(piece.name.to_owned()), ..owner });
        let piece = Piece { at: block.at + open + piece.at, ..*piece };
        found.push(part(file, paths, &whole.module, owner, &piece));
    }
    let head = Piece { code: &block.code[..open], ..*block };
    let lines = found.iter().map(|part| part.lines).sum();
    whole = Part {
        lines: whole.lines.saturating_sub(lines),
        ..part(file, paths, &whole.module, whole.owner, &head)
    };
    found.push(whole);
    found
}

fn part(file: &RustFile, paths: &Paths, module: &str, owner: Option<Owner>, piece: &Piece<'_>) -> Part {
    let named = if piece.keyword == "use" {
        used_paths(piece.code).into_iter().map(|(_, path)| path).collect()
    } else {
        named_paths(piece.code)
    };
    Part {
        room: room_of(module).to_owned(),
        module: module.to_owned(),
        owner,
        names: named.iter().filter_map(|path| paths.item(module, path)).collect(),
        calls: called_methods(piece.code),
        lines: code_lines(file, piece.at..piece.at + piece.code.len()),
    }
}

/// Returns the items that one of [`USES`] uses.
fn used_by<'a>(room: &str, parts: &'a [Part]) -> BTreeSet<&'a Owner> {
    let (mut names, mut calls) = (BTreeSet::new(), BTreeSet::new());
    let mut used: BTreeSet<&Owner> = BTreeSet::new();
    for part in parts.iter().filter(|part| part.room == room) {
        names.extend(&part.names);
        calls.extend(&part.calls);
        used.extend(&part.owner);
    }
    loop {
        let before = (used.len(), names.len(), calls.len());
        for part in parts {
            let Some(owner) = &part.owner else { continue };
            let is_used = names.contains(&owner.item)
                && owner.method.as_ref().is_none_or(|method| calls.contains(method));
            if is_used {
                used.insert(owner);
                if BELOW.contains(&part.room.as_str()) {
                    names.extend(&part.names);
                    calls.extend(&part.calls);
                }
            }
        }
        if before == (used.len(), names.len(), calls.len()) {
            return used;
        }
    }
}

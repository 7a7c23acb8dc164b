//! The rules, one file per kind.

pub mod arrows;
pub mod core_tree;
pub mod links;
pub mod names;
pub mod prose;
pub mod shape;
pub mod types;
pub mod words;

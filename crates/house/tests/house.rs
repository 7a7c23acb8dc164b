//! Applies every rule to this workspace. A failed test lists all violations as `file:line: rule`.

use std::fmt::Write;
use treefold_house::Violation;
use treefold_house::rule::{arrows, core_tree, links, names, prose, shape, types, words};
use treefold_house::seams;
use treefold_house::workspace::{self, File, RustFile};

fn files() -> Vec<File> {
    workspace::files(&workspace::root()).expect("the workspace can be read")
}

fn rust_files() -> Vec<RustFile> {
    workspace::rust_files(&files())
}

#[track_caller]
fn assert_none(mut violations: Vec<Violation>) {
    violations.sort();
    let mut list = String::new();
    for violation in &violations {
        writeln!(list, "{violation}").expect("writing to a String cannot fail");
    }
    assert!(violations.is_empty(), "{} violations of the house rules\n{list}", violations.len());
}

#[test]
fn rules_see_the_files_of_the_workspace() {
    let paths: Vec<String> = files().into_iter().map(|file| file.path).collect();
    for known in ["Cargo.toml", "crates/core/src/lib.rs", "crates/house/tests/house.rs"] {
        assert!(paths.iter().any(|path| path == known), "{known} was not found: the rules see no files");
    }
}

#[test]
fn files_are_small_and_begin_with_a_module_comment() {
    assert_none(rust_files().iter().flat_map(shape::check).collect());
}

#[test]
fn structs_of_core_have_few_fields_or_a_reason() {
    assert_none(rust_files().iter().flat_map(types::check_fields).collect());
}

#[test]
fn node_leaves_most_methods_to_its_parts() {
    assert_none(types::check_node(&rust_files()));
}

#[test]
fn names_name_a_concept() {
    assert_none(rust_files().iter().flat_map(names::check).collect());
}

#[test]
fn code_does_not_unwrap_and_is_finished() {
    assert_none(rust_files().iter().flat_map(words::check_code).collect());
}

#[test]
fn no_text_names_one_machine_or_one_registry() {
    assert_none(files().iter().flat_map(words::check_text).collect());
}

#[test]
fn prose_names_its_actors() {
    let pages = files();
    let pages = pages.iter().filter(|file| file.ending() == "md").flat_map(prose::check_text);
    assert_none(rust_files().iter().flat_map(prose::check_code).chain(pages).collect());
}

#[test]
fn links_lead_somewhere() {
    let root = workspace::root();
    let pages = files();
    let pages = pages.iter().filter(|file| file.ending() == "md");
    assert_none(pages.flat_map(|page| links::check(&root, page)).collect());
}

#[test]
fn every_seam_has_a_test_or_a_reason() {
    let (violations, counts) = seams::check(&files());
    assert_none(violations);
    println!("seams: {counts:?}");
}

#[test]
fn arrows_between_crates_run_one_way() {
    assert_none(arrows::check(&files()));
}

#[test]
fn core_has_no_runtime() {
    assert_none(core_tree::check(&workspace::root()).expect("cargo tree prints core's dependencies"));
    assert_none(core_tree::check_library(&rust_files()));
}

//! The arrows between crates run one way.
//!
//! `core ← operators ← {treefold, sim, wasm} ← network ← {gateway, attach, apps} ← {cli, python} ← {bench, fuzz}`: a crate depends on
//! rooms to its left only, in builds and in tests alike. So `treefold` and `sim`, two drivers of one core,
//! never know each other, and what one of them needs of the other belongs into `core`.
//!
//! One arrow goes the other way: core's integration tests run in `sim`'s world (`TESTED_IN`). They link the same build
//! of core that `sim` does. Core's unit tests are another build, whose types are not those of `sim`, so no file of core's
//! sources names it.

use crate::Violation;
use crate::workspace::File;

/// Rooms by directory, left to right.
const ROOMS: [(&str, usize); 17] = [
    ("crates/core", 0),
    ("crates/figures", 0),
    ("crates/operators", 1),
    ("crates/guest", 0),
    ("crates/guest/operators", 2),
    ("crates/wasm", 2),
    ("crates/treefold", 2),
    ("crates/sim", 2),
    ("crates/network", 3),
    ("crates/gateway", 4),
    ("crates/attach", 4),
    ("apps/", 4),
    ("crates/cli", 5),
    ("python", 5),
    ("bench/", 6),
    ("fuzz", 6),
    ("crates/house", 0),
];

/// The crate that may ask, in which table, and for which other.
const TESTED_IN: (&str, &str, &str) = ("crates/core", "dev-dependencies", "treefold-sim");
/// The same crate's sources, and what they must not name.
const UNTESTED_IN: (&str, &str) = ("crates/core/src/", "treefold_sim");

/// One crate: its name, where it is, and which crates of this workspace it asks for, by line.
struct Manifest<'a> {
    file: &'a File,
    directory: &'a str,
    name: &'a str,
    asks_for: Vec<(usize, &'a str)>,
    /// The same of what it may ask for though it lies to the right.
    tested_in: Option<&'a str>,
}

/// Applies the rule to all manifests of the workspace.
pub fn check(files: &[File]) -> Vec<Violation> {
    let manifests: Vec<Manifest<'_>> = files.iter().filter_map(read).collect();
    let mut found = sources_that_name_their_tests_world(files);
    for manifest in &manifests {
        let path = &manifest.file.path;
        let Some(room) = room(manifest.directory) else {
            found.push(Violation::at(path, 1, "this crate has no place among the rooms; give it one"));
            continue;
        };
        for &(line, name) in &manifest.asks_for {
            if manifest.tested_in == Some(name) {
                continue;
            }
            let known = manifests.iter().find(|other| other.name == name);
            if known.and_then(|other| self::room(other.directory)).is_some_and(|other| other >= room) {
                let rule = format!("{} must not depend on {name}: arrows run one way", manifest.name);
                found.push(Violation::at(path, line, rule));
            }
        }
        if !manifest.file.text.contains("[lints]\nworkspace = true") {
            found.push(Violation::at(
                path,
                1,
                "the workspace's lints hold here too: [lints] workspace = true",
            ));
        }
    }
    found
}

/// Sources of the crate that is tested in another must not name that one.
fn sources_that_name_their_tests_world(files: &[File]) -> Vec<Violation> {
    let (sources, name) = UNTESTED_IN;
    let named = |(line, text): (usize, &str)| text.contains(name).then_some(line + 1);
    let of_core = files.iter().filter(|file| file.path.starts_with(sources));
    let lines = of_core
        .flat_map(|file| file.text.lines().enumerate().filter_map(named).map(move |line| (file, line)));
    let rule = "only integration tests may use treefold-sim: unit tests are another build of core";
    lines.map(|(file, line)| Violation::at(&file.path, line, rule)).collect()
}

fn room(directory: &str) -> Option<usize> {
    let holds = |place: &str| directory == place || place.ends_with('/') && directory.starts_with(place);
    ROOMS.iter().find(|(place, _)| holds(place)).map(|&(_, room)| room)
}

/// `None` for a file that is no crate's manifest. A manifest is read line by line: tables and keys are all
/// that matters, and both begin their line.
fn read(file: &File) -> Option<Manifest<'_>> {
    let directory = file.path.strip_suffix("/Cargo.toml")?;
    let (mut table, mut name, mut asks_for, mut tested_in) = ("", None, Vec::new(), None);
    for (index, line) in file.text.lines().map(str::trim).enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_end_matches(']');
            // `[dependencies.name]` is both table and key
            if let Some((kind, key)) = table.rsplit_once('.')
                && kind.ends_with("dependencies")
            {
                asks_for.push((index + 1, key));
            }
        } else if let Some((key, value)) = line.split_once('=') {
            if table == "package" && key.trim() == "name" {
                name = Some(value.trim().trim_matches('"'));
            } else if table.ends_with("dependencies") {
                // `name.workspace = true` names its crate before the dot
                let other = key.trim().split('.').next().unwrap_or_default();
                asks_for.push((index + 1, other));
                if (directory, table, other) == TESTED_IN {
                    tested_in = Some(other);
                }
            }
        }
    }
    name.map(|name| Manifest { file, directory, name, asks_for, tested_in })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(directory: &str, name: &str, rest: &str) -> File {
        File {
            path: format!("{directory}/Cargo.toml"),
            text: format!("[package]\nname = \"{name}\"\n{rest}\n[lints]\nworkspace = true\n"),
        }
    }

    #[test]
    fn arrows_to_the_left_are_fine() {
        let files = [
            manifest("crates/core", "treefold-core", "[dependencies]\nfoca.workspace = true"),
            manifest("crates/treefold", "treefold", "[dependencies]\ntreefold-core = { workspace = true }"),
            manifest("apps/search", "treefold-search", "[dependencies]\ntreefold.workspace = true"),
        ];
        assert_eq!(check(&files), []);
    }

    #[test]
    fn two_drivers_never_know_each_other_not_even_in_tests() {
        let files = [
            manifest("crates/treefold", "treefold", ""),
            manifest("crates/sim", "treefold-sim", "[dev-dependencies]\ntreefold.workspace = true"),
            manifest("crates/core", "treefold-core", "[dependencies.treefold]\nworkspace = true"),
        ];
        let places: Vec<_> = check(&files).into_iter().map(|found| (found.file, found.line)).collect();
        assert_eq!(
            places,
            [("crates/sim/Cargo.toml".to_owned(), 4), ("crates/core/Cargo.toml".to_owned(), 3)]
        );
    }

    #[test]
    fn core_is_tested_in_the_simulated_world_by_integration_tests_alone() {
        let source =
            |path: &str| File { path: path.to_owned(), text: "use treefold_sim::world::World;\n".to_owned() };
        let tested =
            manifest("crates/core", "treefold-core", "[dev-dependencies]\ntreefold-sim.workspace = true");
        let built = manifest("crates/core", "treefold-core", "[dependencies]\ntreefold-sim.workspace = true");
        let sim = manifest("crates/sim", "treefold-sim", "[dependencies]\ntreefold-core.workspace = true");
        assert_eq!(check(&[tested, sim.clone(), source("crates/core/tests/whole/clusters/main.rs")]), []);
        assert_eq!(check(&[built, sim]).len(), 1);
        assert_eq!(check(&[source("crates/core/src/node.rs")]).len(), 1);
    }

    #[test]
    fn a_crate_has_a_room_and_the_lints_of_the_house() {
        let mut stray = manifest("crates/attic", "attic", "");
        assert_eq!(check(std::slice::from_ref(&stray)).len(), 1);
        stray.path = "crates/core/Cargo.toml".to_owned();
        stray.text = "[package]\nname = \"treefold-core\"\n".to_owned();
        assert_eq!(check(&[stray]).len(), 1);
    }
}

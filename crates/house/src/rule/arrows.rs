//! Checks that dependencies between crates run one way.
//!
//! `core ← operators ← mirror ← flights ← {treefold, sim, wasm} ← {network, feed, forms, traces} ← {sources, gateway, attach, apps} ← cli ← python ← {bench, fuzz}`:
//! a crate depends only on rooms to its left, in builds and in tests. So `treefold` and `sim`, two drivers of
//! one core, never depend on each other. Code that one of them needs from the other belongs in `core`.
//! `apps/flights` lies left of the other apps, because it only generates events, for the simulator too.
//!
//! One dependency goes the other way: core's integration tests run in `sim`'s world (`TESTED_IN`). They link
//! the same build of core as `sim`. Core's unit tests are another build, whose types differ from the types
//! that `sim` uses. So no file of core's sources may name `sim`.

use crate::Violation;
use crate::workspace::File;

/// Rooms by directory, left to right.
const ROOMS: [(&str, usize); 31] = [
    ("crates/core", 0),
    ("crates/figures", 0),
    ("crates/certificates", 1),
    ("crates/operators", 1),
    ("crates/mirror", 2),
    ("crates/journal", 0),
    ("crates/http", 0),
    ("crates/nats", 1),
    ("crates/objects", 1),
    ("crates/guest", 0),
    ("apps/flights", 3),
    ("crates/guest/operators", 4),
    ("crates/wasm", 4),
    ("crates/treefold", 4),
    ("crates/sim", 4),
    ("crates/feed", 5),
    ("crates/forms", 5),
    ("crates/network", 5),
    ("crates/traces", 5),
    ("crates/sources", 6),
    ("crates/gateway", 6),
    ("crates/attach", 6),
    ("apps/", 6),
    ("crates/cli", 7),
    ("python", 8),
    // its clocks and schedules serve bench/mirrors too
    ("bench/down", 7),
    // a server for tests of rooms to its right
    ("bench/store", 0),
    ("bench/", 8),
    ("fuzz", 8),
    ("fuzz/attacks", 8),
    ("crates/house", 0),
];

/// The exempt dependency: the crate that depends, the table, and the other crate.
const TESTED_IN: (&str, &str, &str) = ("crates/core", "dev-dependencies", "treefold-sim");
/// The sources of the same crate, and the name that they must not contain.
const UNTESTED_IN: (&str, &str) = ("crates/core/src/", "treefold_sim");

/// The manifest of one crate. `asks_for` holds the names of its dependencies, each with its line.
struct Manifest<'a> {
    file: &'a File,
    directory: &'a str,
    name: &'a str,
    asks_for: Vec<(usize, &'a str)>,
    /// The dependency that is allowed although it lies to the right.
    tested_in: Option<&'a str>,
}

/// Applies the rule to all manifests of the workspace.
pub fn check(files: &[File]) -> Vec<Violation> {
    let manifests: Vec<Manifest<'_>> = files.iter().filter_map(read).collect();
    let mut found = sources_that_name_their_tests_world(files);
    for manifest in &manifests {
        let path = &manifest.file.path;
        let Some(room) = room(manifest.directory) else {
            found.push(Violation::at(path, 1, "this crate is in no room; add it to `ROOMS` of the rule"));
            continue;
        };
        for &(line, name) in &manifest.asks_for {
            if manifest.tested_in == Some(name) {
                continue;
            }
            let known = manifests.iter().find(|other| other.name == name);
            if known.and_then(|other| self::room(other.directory)).is_some_and(|other| other >= room) {
                let rule = format!("{} must not depend on {name}: it is not to its left", manifest.name);
                found.push(Violation::at(path, line, rule));
            }
        }
        if !manifest.file.text.contains("[lints]\nworkspace = true") {
            found.push(Violation::at(
                path,
                1,
                "expected the workspace's lints in this manifest: [lints] workspace = true",
            ));
        }
    }
    found
}

/// Finds the lines of core's sources that name the crate in which core's integration tests run.
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

/// Reads a manifest. Returns `None` for a file that is not a crate's manifest.
///
/// A manifest is read line by line: only tables and keys matter, and both begin their line.
fn read(file: &File) -> Option<Manifest<'_>> {
    let directory = file.path.strip_suffix("/Cargo.toml")?;
    let (mut table, mut name, mut asks_for, mut tested_in) = ("", None, Vec::new(), None);
    for (index, line) in file.text.lines().map(str::trim).enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            table = header.trim_end_matches(']');
            // `[dependencies.name]` is both table and key.
            if let Some((kind, key)) = table.rsplit_once('.')
                && kind.ends_with("dependencies")
            {
                asks_for.push((index + 1, key));
            }
        } else if let Some((key, value)) = line.split_once('=') {
            if table == "package" && key.trim() == "name" {
                name = Some(value.trim().trim_matches('"'));
            } else if table.ends_with("dependencies") {
                // `name.workspace = true` names its crate before the dot.
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
    fn dependencies_to_the_left_are_allowed() {
        let files = [
            manifest("crates/core", "treefold-core", "[dependencies]\nfoca.workspace = true"),
            manifest("crates/treefold", "treefold", "[dependencies]\ntreefold-core = { workspace = true }"),
            manifest("apps/search", "treefold-search", "[dependencies]\ntreefold.workspace = true"),
        ];
        assert_eq!(check(&files), []);
    }

    #[test]
    fn two_drivers_must_not_depend_on_each_other_even_in_tests() {
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
    fn only_integration_tests_of_core_may_use_the_simulator() {
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
    fn crate_without_a_room_or_the_lints_is_a_violation() {
        let mut stray = manifest("crates/attic", "attic", "");
        assert_eq!(check(std::slice::from_ref(&stray)).len(), 1);
        stray.path = "crates/core/Cargo.toml".to_owned();
        stray.text = "[package]\nname = \"treefold-core\"\n".to_owned();
        assert_eq!(check(&[stray]).len(), 1);
    }
}

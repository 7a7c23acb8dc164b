//! The page's files are built from the sources in `ui/`. The build records hashes of both; `make ui` builds them again.

use ring::digest::{SHA256, digest};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of `ui/` beside its directory `src` that decide what is built.
const CONFIGURATION: [&str; 4] = [".npmrc", "build.mjs", "package-lock.json", "package.json"];
/// The files of the page.
const BUILT: [&str; 3] = ["index.html", "page.css", "page.js"];

fn directory(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn hash_of(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files below a directory, as paths below `ui`.
fn files_below(ui: &Path, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(ui.join(directory)).unwrap().map(Result::unwrap);
    let of_entry = |entry: fs::DirEntry| {
        let path = format!("{directory}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() { files_below(ui, &path) } else { vec![path] }
    };
    entries.flat_map(of_entry).collect()
}

#[test]
fn page_is_built_from_its_sources() {
    let (ui, page) = (directory("../../ui"), directory("page"));
    let mut sources = files_below(&ui, "src");
    sources.extend(CONFIGURATION.map(str::to_owned));
    sources.sort_unstable();
    let lines = sources.iter().map(|path| format!("{} {path}\n", hash_of(&fs::read(ui.join(path)).unwrap())));
    let mut expected = format!("sources {}\n", hash_of(lines.collect::<String>().as_bytes()));
    for name in BUILT {
        expected.push_str(&format!("{name} {}\n", hash_of(&fs::read(page.join(name)).unwrap())));
    }
    let recorded = fs::read_to_string(page.join("built-from.txt")).unwrap();
    assert_eq!(recorded, expected, "crates/gateway/page and ui/ differ: run `make ui`, and commit both");
}

#[test]
fn page_names_no_other_host() {
    for name in BUILT {
        let text = fs::read_to_string(directory("page").join(name)).unwrap();
        let hosts = text.match_indices("://").map(|(at, _)| &text[at..(at + 40).min(text.len())]);
        // Names of XML's namespaces look like addresses.
        let other: Vec<&str> = hosts.filter(|host| !host.starts_with("://www.w3.org/")).collect();
        assert!(other.is_empty(), "{name}: {other:?}");
    }
}

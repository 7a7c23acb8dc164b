//! The table of seams: which test plays a use of Treefold, over a way in, in a place, under a fault.
//!
//! `seams.txt` says how the table is written. This module reads it and finds cells without a line and tests that do not
//! exist.

use crate::Violation;
use crate::workspace::File;
use std::collections::BTreeMap;

/// The file with the table.
pub const TABLE: &str = "crates/house/seams.txt";
/// The kinds of a cell's four words, in the order of a line's columns.
const AXES: [&str; 4] = ["uses", "ways", "places", "faults"];

/// A line's word on its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Played,
    Never,
}

/// Numbers of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cells with a test.
    pub played: usize,
    /// Cells that cannot be.
    pub never: usize,
}

/// Checks the table, and counts its cells.
pub fn check(files: &[File]) -> (Vec<Violation>, Counts) {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else {
        return (vec![Violation::at(TABLE, 1, "the table of seams is missing")], Counts::default());
    };
    let (mut axes, mut cells, mut wrong) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (number, line) in (1..).zip(table.text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[uses, ways, places, faults, said] = &*columns else {
            match line.split_once(' ') {
                Some((axis, members)) if AXES.contains(&axis) => {
                    axes.insert(axis, members.split_whitespace().collect::<Vec<_>>());
                }
                _ => wrong.push(Violation::at(TABLE, number, "a line has five columns")),
            }
            continue;
        };
        let sets = [uses, ways, places, faults].map(|set| set.split_whitespace().collect::<Vec<_>>());
        for (axis, set) in AXES.iter().zip(&sets) {
            let known = axes.get(axis).map_or(&[][..], Vec::as_slice);
            let unknown = set.iter().filter(|member| !known.contains(member));
            wrong.extend(unknown.map(|member| {
                Violation::at(TABLE, number, format!("{member:?} is none of the {axis}: {known:?}"))
            }));
        }
        let says = match said.split_once(' ') {
            Some(("never", _)) => Says::Never,
            Some((path, test)) if is_test(files, path, test) => Says::Played,
            _ => {
                wrong.push(Violation::at(TABLE, number, format!("there is no test {said}")));
                continue;
            }
        };
        for cell in product(&sets) {
            let known = cells.entry(cell).or_insert(says);
            *known = says.min(*known);
        }
    }
    let sets = AXES.map(|axis| axes.get(axis).cloned().unwrap_or_default());
    let missing = product(&sets).into_iter().filter(|cell| !cells.contains_key(cell));
    wrong.extend(missing.map(|cell| Violation::at(TABLE, 1, format!("no line for {}", cell.join(" | ")))));
    let count = |says| cells.values().filter(|said| **said == says).count();
    (wrong, Counts { played: count(Says::Played), never: count(Says::Never) })
}

fn is_test(files: &[File], path: &str, test: &str) -> bool {
    let file = files.iter().find(|file| file.path == path);
    file.is_some_and(|file| {
        file.text.contains(&format!("fn {test}(")) || file.text.contains(&format!("def {test}("))
    })
}

fn product<'a>(sets: &[Vec<&'a str>; 4]) -> Vec<[&'a str; 4]> {
    let [uses, ways, places, faults] = sets;
    let mut cells = Vec::new();
    for &one in uses {
        for &way in ways {
            for &place in places {
                cells.extend(faults.iter().map(|&fault| [one, way, place, fault]));
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(table: &str) -> (Vec<String>, Counts) {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let (wrong, counts) = check(&[file(TABLE, table), file("a.rs", "fn it_works() {}")]);
        (wrong.into_iter().map(|violation| violation.rule).collect(), counts)
    }

    const AXES_OF_TWO: &str = "uses call push\nways rust\nplaces cluster\nfaults none\n";

    #[test]
    fn every_cell_needs_a_line_and_every_test_must_be_there() {
        let (wrong, _) = checked(&format!("{AXES_OF_TWO}call | rust | cluster | none | a.rs it_works"));
        assert_eq!(wrong, ["no line for push | rust | cluster | none"]);
        let (wrong, _) = checked(&format!("{AXES_OF_TWO}call push | rust | cluster | none | a.rs it_fails"));
        assert_eq!(wrong[0], "there is no test a.rs it_fails");
        let (wrong, _) = checked(&format!("{AXES_OF_TWO}call push feed | rust | cluster | none | never so"));
        assert!(wrong[0].starts_with("\"feed\" is none of the uses"), "{wrong:?}");
    }

    #[test]
    fn a_test_counts_more_than_a_reason() {
        let lines =
            "call push | rust | cluster | none | never so\ncall | rust | cluster | none | a.rs it_works";
        let (wrong, counts) = checked(&format!("{AXES_OF_TWO}{lines}"));
        assert_eq!((wrong.len(), counts), (0, Counts { played: 1, never: 1 }));
    }
}

//! The files for operators: each figure that they ask for is documented, and each alert has a section that says what to do.

use std::collections::{BTreeMap, BTreeSet};

/// A file of the project.
pub fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The families that docs/metrics.md lists, with their types.
pub fn documented() -> BTreeMap<String, String> {
    let row = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split_once(" |")?.0.to_owned()))
    };
    read("docs/metrics.md").lines().filter_map(row).collect()
}

/// The names of figures in a file: words that begin as families do.
fn figures(text: &str) -> BTreeSet<&str> {
    let words = text.split(|symbol: char| !symbol.is_ascii_alphanumeric() && symbol != '_' && symbol != ':');
    words.filter(|word| word.starts_with("treefold_") || word.starts_with("process_")).collect()
}

#[test]
fn alerts_and_dashboard_ask_only_for_documented_figures() {
    let documented = documented();
    for file in [
        "deploy/prometheus/alerts.yaml",
        "deploy/prometheus/alerts_test.yaml",
        "deploy/grafana/treefold.json",
    ] {
        let text = read(file);
        for figure in figures(&text) {
            let parts = ["_bucket", "_sum", "_count"].iter().find_map(|part| figure.strip_suffix(part));
            let family =
                parts.filter(|family| documented.get(*family).is_some_and(|kind| kind == "histogram"));
            assert!(documented.contains_key(family.unwrap_or(figure)), "{file} asks for {figure}");
        }
    }
}

#[test]
fn every_alert_has_a_section_that_says_what_to_do() {
    let (rules, page) = (read("deploy/prometheus/alerts.yaml"), read("docs/production.md"));
    let values = |key: &str| -> Vec<String> {
        rules.lines().filter_map(|line| line.trim_start().strip_prefix(key)).map(str::to_owned).collect()
    };
    let (alerts, runbooks) = (values("- alert: "), values("runbook: docs/production.md#"));
    assert_eq!(alerts.len(), runbooks.len(), "an alert lacks its runbook");
    for (alert, anchor) in alerts.iter().zip(&runbooks) {
        assert_eq!(*anchor, alert.to_lowercase(), "{alert} links to another section");
        assert!(page.contains(&format!("\n### {alert}\n")), "docs/production.md has no section {alert}");
    }
    let sections = page.lines().filter_map(|line| line.strip_prefix("### Treefold"));
    for section in sections {
        assert!(alerts.contains(&format!("Treefold{section}")), "there is no alert Treefold{section}");
    }
}

//! The list of keys as tables of docs/configuration.md.

use super::keys::{self, Key, Kind, Table};
use std::fmt::Write;
use treefold_core::bounds::Range;

/// The lines of the page between which the tables are.
pub(super) const MARKS: (&str, &str) = ("<!-- keys: begin -->\n", "<!-- keys: end -->\n");

/// The tables of all keys.
pub(super) fn tables() -> String {
    let (keys, mut page) = (keys::all(), String::new());
    for table in Table::ALL {
        let heading = match table.name() {
            "" => "At the top".to_owned(),
            name => format!("`[{name}]`"),
        };
        let _ = write!(page, "\n### {heading}\n\n| key | value | default | |\n|---|---|---|---|\n");
        for key in keys.iter().filter(|key| key.table == table) {
            let default = key.default.as_ref().map(|default| format!("`{default}`")).unwrap_or_default();
            let reloaded = if key.is_reloaded { " Taken on SIGHUP." } else { "" };
            let about = key.about.replace('|', "\\|").replace('\n', " ");
            let _ = writeln!(page, "| `{}` | {} | {default} | {about}.{reloaded} |", key.name, value(key));
        }
    }
    page.push('\n');
    page
}

fn value(key: &Key) -> String {
    match key.kind {
        _ if key.table == Table::Shares => "a number or a text".to_owned(),
        Kind::Text(_) => "a text".to_owned(),
        Kind::Texts(_) => "a list of texts".to_owned(),
        Kind::Time => "a time".to_owned(),
        Kind::Share => "0 to 1".to_owned(),
        Kind::Count(least, most) => format!("{least} to {most}"),
        Kind::Switch | Kind::Figure(Range::Switch) => "`true` or `false`".to_owned(),
        Kind::Figure(Range::Policy) => "a policy".to_owned(),
        Kind::Figure(range) => range.to_string(),
    }
}

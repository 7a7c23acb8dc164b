//! Draws as text: one line per row, with box characters for the branches.
//!
//! ```text
//! login:0
//! ├─ node01:1
//! │  └─ node[01-04]:0 ×4
//! └─ node05:1
//!    └─ node[05-08]:0 ×4
//! ```
//!
//! A line is at most as wide as the terminal. Each level takes three columns, so in a deep row `…` replaces
//! the outermost levels. Otherwise the text of a chain would grow with the square of its length.

use super::Drawing;

/// The most levels of branches before a name. Outer ones are omitted.
const LEVELS_MAX: usize = 40;
/// Columns of a level.
const LEVEL_COLUMNS: usize = 3;

/// Draws a topology as text with lines of at most `columns` columns.
pub fn to_text(drawing: &Drawing, columns: Option<usize>) -> String {
    let levels_max = columns.map_or(LEVELS_MAX, |columns| (columns / 2 / LEVEL_COLUMNS).clamp(1, LEVELS_MAX));
    let mut text = String::new();
    // Whether the row and each row above it is the last of its siblings. The root's entry is not used.
    let mut last: Vec<bool> = Vec::new();
    for row in &drawing.rows {
        last.truncate(row.depth);
        last.push(row.is_last);
        let mut line = String::new();
        if row.depth > levels_max {
            line.push_str("… ");
        }
        for level in (1..=row.depth).skip(row.depth.saturating_sub(levels_max)) {
            line.push_str(match (level == row.depth, last[level]) {
                (true, false) => "├─ ",
                (true, true) => "└─ ",
                (false, false) => "│  ",
                (false, true) => "   ",
            });
        }
        line.push_str(&row.label());
        push_line(&mut text, &line, columns);
    }
    if let Some(remainder) = drawing.remainder() {
        push_line(&mut text, &remainder, columns);
    }
    text
}

fn push_line(text: &mut String, line: &str, columns: Option<usize>) {
    match columns.map(|columns| columns.max(1)) {
        Some(columns) if line.chars().count() > columns => {
            text.extend(line.chars().take(columns - 1).chain(['…']));
        }
        _ => text.push_str(line),
    }
    text.push('\n');
}

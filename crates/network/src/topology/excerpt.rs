//! Shows problems in their text, as compilers do: the line, and a mark below the wrong part.
//!
//! ```text
//! tree.top:3:13: node02:0 has two parents: login:0, and node01:0 here
//!   2 | login:0 => node01:0 node02:0 ;
//!     |                     -------- listed here before
//!   3 | node01:0 => node02:0 ;
//!     |             ^^^^^^^^
//! ```
//!
//! A line may be very long in a large topology, so each line is cut to the part around its mark. Control
//! characters are shown as spaces, so that an untrusted text cannot control the terminal.

use super::problem::{Place, Problem, Problems};
use std::fmt::Write;

/// Default number of columns that are shown of a line.
pub const EXCERPT_COLUMNS: usize = 120;
/// The least number of columns that are shown.
const COLUMNS_MIN: usize = 20;

/// Shows every problem. `name` is the text's name, and `columns` is the greatest width of a line.
pub fn excerpts(problems: &Problems, text: &str, name: &str, columns: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown: Vec<String> = problems.iter().map(|problem| excerpt(problem, &lines, name, columns)).collect();
    let mut shown = shown.join("\n");
    match problems.count() - problems.iter().len() {
        0 => {}
        more => shown.push_str(&format!("\n… and {more} more problems\n")),
    }
    shown
}

fn excerpt(problem: &Problem, lines: &[&str], name: &str, columns: usize) -> String {
    let Place { line, column, width } = problem.place;
    let mut shown = format!("{name}:{line}:{column}: {}\n", problem.kind);
    if width == 0 && line == 1 && column == 1 {
        // The problem concerns the whole text.
        return shown;
    }
    let mut marked = vec![(problem.place, '^', "")];
    marked.extend(problem.beside.as_ref().map(|(place, what)| (*place, '-', what.as_str())));
    marked.sort_by_key(|&(place, ..)| place);
    let gutter = marked.iter().map(|(place, ..)| place.line.to_string().len()).max().unwrap_or(0) + 2;
    let room = columns.saturating_sub(gutter + 3).max(COLUMNS_MIN);
    for (at, &(place, mark, what)) in marked.iter().enumerate() {
        let window = Window::around(place, lines.get(place.line - 1).copied().unwrap_or_default(), room);
        // If two marks are in one short line, the line is shown once.
        let repeated = at > 0 && marked[at - 1].0.line == place.line && !window.is_cut;
        let mut write = |number: &str, content: &str| {
            writeln!(shown, "{}", format!("{number:>gutter$} | {content}").trim_end())
                .expect("invariant: writing to a String never fails");
        };
        if !repeated {
            write(&place.line.to_string(), &window.text);
        }
        let marks = mark.to_string().repeat(window.mark_width);
        write("", &format!("{}{marks} {what}", " ".repeat(window.mark_start)));
    }
    shown
}

/// The shown part of a line.
struct Window {
    text: String,
    is_cut: bool,
    mark_start: usize,
    mark_width: usize,
}

impl Window {
    fn around(place: Place, line: &str, room: usize) -> Self {
        let printable = |character: char| if character.is_control() { ' ' } else { character };
        let all: Vec<char> = line.chars().map(printable).collect();
        let meant = (place.column - 1).min(all.len());
        if all.len() <= room {
            let mark_width = place.width.clamp(1, (all.len() - meant).max(1));
            return Self { text: all.iter().collect(), is_cut: false, mark_start: meant, mark_width };
        }
        // A third of the shown part precedes the mark.
        let start = meant.saturating_sub(room / 3).min(all.len() - room);
        let end = start + room;
        let mut text: Vec<char> = all[start..end].to_vec();
        if start > 0 {
            text[0] = '…';
        }
        if end < all.len() {
            text[room - 1] = '…';
        }
        let mark_start = meant - start;
        let mark_width = place.width.clamp(1, (room - mark_start).max(1));
        Self { text: text.into_iter().collect(), is_cut: true, mark_start, mark_width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Bounds, parse::parse};

    fn shown(text: &str, columns: usize) -> String {
        excerpts(&parse(text, &Bounds::DEFAULT).unwrap_err(), text, "tree.top", columns)
    }

    #[test]
    fn the_mark_is_below_the_wrong_part() {
        let text = "# mine\nlogin:0 =>\tnode01:x ;\n";
        assert_eq!(
            shown(text, 100),
            "tree.top:2:19: `x` is not a process number: it must consist of digits only\n\
             \x20 2 | login:0 => node01:x ;\n\
             \x20   |                   ^\n"
        );
    }

    #[test]
    fn a_related_place_is_shown_too() {
        let text = "login:0 => node01:0 node02:0 ;\nnode01:0 => node02:0 ;\n";
        assert_eq!(
            shown(text, 100),
            "tree.top:2:13: node02:0 has two parents: login:0, and node01:0 here\n\
             \x20 1 | login:0 => node01:0 node02:0 ;\n\
             \x20   |                     -------- listed here before\n\
             \x20 2 | node01:0 => node02:0 ;\n\
             \x20   |             ^^^^^^^^\n"
        );
        assert_eq!(
            shown("a:0 => b:0 b:0 ;", 100),
            "tree.top:1:12: b:0 is listed twice below a:0\n\
             \x20 1 | a:0 => b:0 b:0 ;\n\
             \x20   |        --- listed here before\n\
             \x20   |            ^^^\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let names: Vec<String> = (0..2_000).map(|at| format!("node{at}:0")).collect();
        let text = format!("login:0 => {} node7:0 {} ;", names[..1_000].join(" "), names[1_000..].join(" "));
        let shown = shown(&text, 60);
        assert!(shown.lines().skip(1).all(|line| line.chars().count() <= 80), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        let marked = lines.iter().position(|line| line.contains("^^^^^^^")).expect("a mark");
        let column = lines[marked].find('^').expect("a mark");
        let above: String = lines[marked - 1].chars().skip(column).take(7).collect();
        assert_eq!(above, "node7:0", "{shown}");
    }

    #[test]
    fn control_characters_are_not_shown() {
        let shown = shown("login:0 => \u{1b}[31mnode:0 ;\n", 100);
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert!(shown.contains("`\\u{1b}` is not valid here"), "{shown}");
    }

    #[test]
    fn an_unfinished_text_is_marked_at_its_end() {
        let shown = shown("login:0 => node:0\n\n# end\n", 100);
        assert!(shown.starts_with("tree.top:3:6: the text ends in the middle of a statement"), "{shown}");
        assert!(shown.ends_with("  3 | # end\n    |      ^\n"), "{shown}");
    }
}

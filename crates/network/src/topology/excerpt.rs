//! Shows problems in their text, as compilers do: the line, and a mark below the wrong part.
//!
//! ```text
//! error: node02:0 has two parents: login:0, and node01:0 here
//!  --> tree.top:3:13
//!   |
//! 2 | login:0 => node01:0 node02:0 ;
//!   |                     -------- listed here before
//! 3 | node01:0 => node02:0 ;
//!   |             ^^^^^^^^
//! ```
//!
//! `annotate-snippets`, rustc's own renderer, draws them. It cuts long lines to the part around their marks, and shows
//! control characters as pictures, so that an untrusted text cannot control the terminal.

use super::problem::{Place, Problem, Problems};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::ops::Range;

/// Default number of columns that are shown of a line.
pub const EXCERPT_COLUMNS: usize = 120;

/// Shows every problem. `name` is the text's name, and `columns` is the greatest width of a line.
pub fn excerpts(problems: &Problems, text: &str, name: &str, columns: usize) -> String {
    let renderer = Renderer::plain().term_width(columns);
    let starts: Vec<usize> = line_starts(text).collect();
    let shown = problems.iter().map(|problem| {
        let title = problem.kind.to_string();
        renderer.render(&[group(problem, &title, Whole { text, starts: &starts, name, columns })]) + "\n"
    });
    let mut shown = shown.collect::<Vec<_>>().join("\n");
    match problems.count() - problems.iter().len() {
        0 => {}
        more => shown.push_str(&format!("\n… and {more} more problems\n")),
    }
    shown
}

/// A text with its lines and its name, and the width in which it is shown.
#[derive(Clone, Copy)]
struct Whole<'a> {
    text: &'a str,
    starts: &'a [usize],
    name: &'a str,
    columns: usize,
}

fn group<'a>(problem: &'a Problem, title: &'a str, whole: Whole<'a>) -> Group<'a> {
    let Whole { text, starts, name, columns } = whole;
    let titled = Level::ERROR.primary_title(title);
    let place = problem.place;
    if place.width == 0 && place.line == 1 && place.column == 1 {
        // The problem concerns the whole text.
        return titled.element(Origin::path(name));
    }
    let wrong = AnnotationKind::Primary.span(span(place, text, starts));
    let snippet = Snippet::source(text).path(name).annotation(wrong);
    let Some((related, what)) = &problem.beside else { return titled.element(snippet) };
    let mark = AnnotationKind::Context.span(span(*related, text, starts)).label(what.as_str());
    // Far apart in one line, the two marks would need all that is between them.
    if related.line == place.line && related.column.abs_diff(place.column) > columns / 2 {
        titled.element(snippet).element(Snippet::source(text).path(name).annotation(mark))
    } else {
        titled.element(snippet.annotation(mark))
    }
}

/// Offsets at which lines start.
fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

/// The bytes of a place, which counts characters.
fn span(place: Place, text: &str, starts: &[usize]) -> Range<usize> {
    let start = starts.get(place.line - 1).copied().unwrap_or(text.len());
    let line = text[start..].lines().next().unwrap_or_default();
    let offset = |characters: usize| line.char_indices().nth(characters).map_or(line.len(), |(at, _)| at);
    let from = place.column - 1;
    start + offset(from)..start + offset(from + place.width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Bounds, parse::parse};

    fn shown(text: &str, columns: usize) -> String {
        excerpts(&parse(text, &Bounds::DEFAULT).unwrap_err(), text, "tree.top", columns)
    }

    #[test]
    fn mark_is_below_the_wrong_part() {
        let text = "# mine\nlogin:0 =>\tnode01:x ;\n";
        assert_eq!(
            shown(text, 100),
            "error: `x` is not a process number: it must consist of digits only\n \
             --> tree.top:2:19\n  |\n\
             2 | login:0 =>    node01:x ;\n  \
             |                      ^\n"
        );
    }

    #[test]
    fn related_place_is_shown_too() {
        let text = "login:0 => node01:0 node02:0 ;\nnode01:0 => node02:0 ;\n";
        assert_eq!(
            shown(text, 100),
            "error: node02:0 has two parents: login:0, and node01:0 here\n \
             --> tree.top:2:13\n  |\n\
             1 | login:0 => node01:0 node02:0 ;\n  \
             |                     -------- listed here before\n\
             2 | node01:0 => node02:0 ;\n  \
             |             ^^^^^^^^\n"
        );
        let same_line = shown("a:0 => b:0 b:0 ;", 100);
        assert!(same_line.contains("1 | a:0 => b:0 b:0 ;\n  |        ---"), "{same_line}");
        assert!(same_line.contains("listed here before"), "{same_line}");
    }

    #[test]
    fn long_line_is_cut_around_the_mark() {
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
    fn unfinished_text_is_marked_at_its_end() {
        let shown = shown("login:0 => node:0\n\n# end\n", 100);
        assert!(shown.starts_with("error: the text ends in the middle of a statement"), "{shown}");
        assert!(shown.ends_with(" --> tree.top:3:6\n  |\n3 | # end\n  |      ^\n"), "{shown}");
    }
}

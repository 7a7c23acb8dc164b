//! Prints search results: the best documents and the coverage of the answer.

use crate::commands::call::{missing_line, verdict_line};
use crate::output::safe;
use crate::output::style::Style;
use std::collections::BTreeSet;
use treefold::{Reason, Reply};
use treefold_search::{Hit, Hits};

/// Formats an answer: rank, score and path of each document, its title and snippet below, then the verdict
/// and the losses.
pub(super) fn render(query: &str, reply: &Reply<Hits>, style: Style) -> String {
    let mut parts = vec![style.bold(format_args!("» {query}"))];
    if let Some(hits) = &reply.value {
        parts.extend(hits.hits.iter().enumerate().map(|(at, hit)| document(at + 1, hit, style)));
        parts.push(style.dim(format_args!("{} documents match", hits.matched)));
    }
    parts.push(verdict_line(reply, style));
    parts.extend(losses(reply).into_iter().map(|loss| style.warning(loss)));
    parts.join("\n") + "\n"
}

fn document(rank: usize, hit: &Hit, style: Style) -> String {
    let (before, after) = style.around_found();
    let below = [safe::line(&hit.title).into_owned(), hit.marked(&before, &after)];
    let below = below.iter().filter(|text| !text.is_empty()).map(|text| format!("\n      {text}"));
    let score = style.dim(format_args!("{:.2}", hit.score));
    format!("{rank:>3}. {}  {score}{}", style.good(safe::line(&hit.path)), below.collect::<String>())
}

/// Returns one line for each loss.
///
/// If no partition could process the query and all give the same reason, returns one line.
fn losses<T>(reply: &Reply<T>) -> Vec<String> {
    let said: BTreeSet<&str> = reply
        .missing
        .iter()
        .filter_map(|missing| match &missing.reason {
            Reason::LocalFailed(said) => Some(&**said),
            _ => None,
        })
        .collect();
    match said.first() {
        Some(said_by_all) if said.len() == 1 && reply.contributed.is_empty() => {
            vec![format!("every partition that answered reports: {said_by_all}")]
        }
        _ => reply.missing.iter().map(missing_line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_documents_are_not_printed() {
        let hit = Hit {
            score: 7.25,
            partition: 0,
            document: 1,
            path: "a/b.rs".into(),
            title: "Heaps\u{1b}[31m".into(),
            snippet: "a binary heap".into(),
            highlights: vec![(2, 8)],
        };
        assert_eq!(
            document(3, &hit, Style::PLAIN),
            "  3. a/b.rs  7.25\n      Heaps\\u{1b}[31m\n      a binary heap"
        );
    }
}

//! The evaluation page, and the simulator's part of it.
//!
//! This module replaces the text between two markers. Each marker is a comment on a line of its own. People
//! write all bytes outside the markers, and these stay unchanged. A page without the markers is an error,
//! because people must decide where the markers belong.

use thiserror::Error;

/// The line before the simulator's part.
pub const BEGIN: &str = "<!-- sim:begin -->";
/// The line after the simulator's part.
pub const END: &str = "<!-- sim:end -->";

/// The reason why a page was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoPlace {
    /// A marker is missing.
    #[error("the line {0} is missing: put it where the simulator's part belongs")]
    Missing(&'static str),
    /// A marker occurs more than once.
    #[error("the line {0} occurs more than once: keep one")]
    Repeated(&'static str),
    /// The end marker is before the begin marker.
    #[error("the line {END} is before the line {BEGIN}: exchange them")]
    Reversed,
}

/// Returns the page with `part` between its markers, in place of the old part.
///
/// # Errors
///
/// Each marker must occur exactly once, and the begin marker must be first.
pub fn splice(page: &str, part: &str) -> Result<String, NoPlace> {
    let (begin, end) = (line_of(page, BEGIN)?, line_of(page, END)?);
    if end.start < begin.end {
        return Err(NoPlace::Reversed);
    }
    let (before, after) = (&page[..begin.end], &page[end.start..]);
    // `begin` ends with a newline, because the line of the end marker follows it.
    Ok(format!("{before}\n{}\n\n{after}", part.trim()))
}

/// Returns the bytes of the only line that is `marker`, with its newline.
fn line_of(page: &str, marker: &'static str) -> Result<std::ops::Range<usize>, NoPlace> {
    let mut found = None;
    let mut start = 0;
    for line in page.split_inclusive('\n') {
        let end = start + line.len();
        if line.trim() == marker && found.replace(start..end).is_some() {
            return Err(NoPlace::Repeated(marker));
        }
        start = end;
    }
    found.ok_or(NoPlace::Missing(marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Evaluation\n\nby hand\n<!-- sim:begin -->\nold\n<!-- sim:end -->\n\nmore by hand";

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let page = splice(PAGE, "## Simulated\n\nnew\n").unwrap();
        assert_eq!(
            page,
            "# Evaluation\n\nby hand\n<!-- sim:begin -->\n\n## Simulated\n\nnew\n\n<!-- sim:end -->\n\nmore by hand"
        );
    }

    #[test]
    fn the_same_part_twice_is_the_same_page() {
        let once = splice(PAGE, "part").unwrap();
        assert_eq!(splice(&once, "part").unwrap(), once);
    }

    #[test]
    fn a_page_without_proper_markers_is_refused() {
        let refused = |page: &str| splice(page, "part").unwrap_err();
        assert_eq!(refused("nothing"), NoPlace::Missing(BEGIN));
        assert_eq!(refused("<!-- sim:begin -->\nold"), NoPlace::Missing(END));
        assert_eq!(refused("<!-- sim:end -->\n<!-- sim:begin -->"), NoPlace::Reversed);
        assert_eq!(refused(&format!("{PAGE}\n{BEGIN}\n")), NoPlace::Repeated(BEGIN));
        assert_eq!(refused("text <!-- sim:begin -->\n<!-- sim:end -->"), NoPlace::Missing(BEGIN));
    }
}

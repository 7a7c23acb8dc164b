//! The page, and the place in it that is the simulator's.
//!
//! Between two markers, each a comment on a line of its own, stands what is written here; every byte outside is
//! people's and stays. A page without the markers is refused: where they belong is for people to say.

use thiserror::Error;

/// The line before what is written here.
pub const BEGIN: &str = "<!-- sim:begin -->";
/// The line after it.
pub const END: &str = "<!-- sim:end -->";

/// Why a page was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoPlace {
    /// A marker is not there.
    #[error("the line {0} is missing: put it where the simulator's part belongs")]
    Missing(&'static str),
    /// A marker is there more than once.
    #[error("the line {0} is there more than once")]
    Repeated(&'static str),
    /// The part would end before it begins.
    #[error("{END} stands before {BEGIN}")]
    Reversed,
}

/// The page with `part` between its markers, in place of what was there.
///
/// # Errors
///
/// When each marker is not there exactly once, the first before the second.
pub fn splice(page: &str, part: &str) -> Result<String, NoPlace> {
    let (begin, end) = (line_of(page, BEGIN)?, line_of(page, END)?);
    if end.start < begin.end {
        return Err(NoPlace::Reversed);
    }
    let (before, after) = (&page[..begin.end], &page[end.start..]);
    // Where the marker is the last line of a file without a final newline, `Reversed` or `Missing` came before.
    Ok(format!("{before}\n{}\n\n{after}", part.trim()))
}

/// The bytes of the one line that is `marker`, its newline included.
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
    fn only_what_stands_between_the_markers_changes() {
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
    fn a_page_with_no_place_is_refused() {
        let refused = |page: &str| splice(page, "part").unwrap_err();
        assert_eq!(refused("nothing"), NoPlace::Missing(BEGIN));
        assert_eq!(refused("<!-- sim:begin -->\nold"), NoPlace::Missing(END));
        assert_eq!(refused("<!-- sim:end -->\n<!-- sim:begin -->"), NoPlace::Reversed);
        assert_eq!(refused(&format!("{PAGE}\n{BEGIN}\n")), NoPlace::Repeated(BEGIN));
        assert_eq!(refused("text <!-- sim:begin -->\n<!-- sim:end -->"), NoPlace::Missing(BEGIN));
    }
}

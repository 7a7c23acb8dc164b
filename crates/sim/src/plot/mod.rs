//! Pictures of an experiment's points: one chart, one SVG.
//!
//! A figure is read in a browser, beside the text that speaks of it, and kept in git. From that follows what it
//! is like:
//!
//! - The same points give the same bytes: places are rounded to a tenth of a pixel, nothing is dated and nothing is
//!   drawn by chance, so a difference in git is a difference in the figures.
//! - Text stays text and no font file is read; widths are estimated, on the safe side.
//! - The legend stands beside the data, never on it.
//! - Who sees colours differently, or prints in grey, tells the series apart by their markers.
//!
//! `curve` gathers what is drawn, `scale` chooses axes and ticks, `look` says what each series looks like, and
//! `figure` puts it on paper.
//!
//! Why elements by the `svg` crate, and not a plotting crate: plotters, the one that most use, puts marks on whole
//! pixels, cuts a dashed line into pieces of its own (each of which is a line in a difference), and draws its legend
//! over the data. Without these parts, what is left of it is less than is here.

mod curve;
mod figure;
mod look;
mod scale;

#[cfg(test)]
mod tests;

use crate::experiment::{Chart, Point};
use thiserror::Error;

/// A chart was asked for that would show nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}: none of {points} points has the figure that this chart shows")]
pub struct NothingToDraw {
    /// The chart's file, without `.svg`.
    pub file: &'static str,
    /// How many points there were.
    pub points: usize,
}

/// Draws `chart` of an experiment's `points` as SVG. `real` are points of another origin, as those of real
/// processes: they are drawn as hollow markers in the colour of the series of the same name.
///
/// # Errors
///
/// When no point has a finite figure for this chart; on a logarithmic axis, one above zero.
pub fn draw(chart: &Chart, points: &[Point], real: &[Point]) -> Result<String, NothingToDraw> {
    let curves = curve::gather(chart, points, real);
    if curves.iter().all(curve::Curve::is_reference) {
        return Err(NothingToDraw { file: chart.file, points: points.len() });
    }
    Ok(figure::Figure::new(chart, &curves).to_svg())
}

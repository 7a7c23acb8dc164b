//! Draws an experiment's points: one SVG for each chart.
//!
//! A figure is shown in a browser beside its text, and kept in git. Therefore:
//!
//! - The same points give the same bytes. Positions are rounded to a tenth of a pixel, and there are no dates
//!   and no random numbers. So a difference in git is a difference in the figures.
//! - Text stays text, and no font file is read. Widths are safe estimates.
//! - The legend is beside the data, and never covers them.
//! - The markers distinguish the series for readers who see colours differently, and in prints without
//!   colours.
//!
//! `curve` gathers the curves, `scale` chooses axes and ticks, `look` has the colours and markers, and
//! `figure` draws the picture.
//!
//! The `svg` crate writes single elements. No plotting crate is used: plotters, the most common one, places
//! marks on whole pixels, cuts a dashed line into many elements (each of which is a line in a git
//! difference), and draws its legend over the data. The code without these parts would be longer than the
//! code here.

mod curve;
mod figure;
mod look;
mod scale;

#[cfg(test)]
mod tests;

use crate::experiment::{Chart, Point};
use thiserror::Error;

/// The error of a chart without anything to draw.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}: none of {points} points has the figure that this chart shows")]
pub struct NothingToDraw {
    /// The chart's file, without `.svg`.
    pub file: &'static str,
    /// Number of points.
    pub points: usize,
}

/// Draws `chart` of an experiment's `points` as SVG.
///
/// `real` are points of another origin, such as real processes. They are drawn as hollow markers in the
/// colour of the series with the same name.
///
/// # Errors
///
/// Returns an error if no point has a finite figure for this chart, or a figure above zero on a logarithmic
/// axis.
pub fn draw(chart: &Chart, points: &[Point], real: &[Point]) -> Result<String, NothingToDraw> {
    let curves = curve::gather(chart, points, real);
    if curves.iter().all(curve::Curve::is_reference) {
        return Err(NothingToDraw { file: chart.file, points: points.len() });
    }
    Ok(figure::Figure::new(chart, &curves).to_svg())
}

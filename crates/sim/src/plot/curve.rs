//! Gathers the curves of a chart: ours, the paper's, and marks of real runs.
//!
//! A series looks the same in all charts of its experiment. So its look depends on its index among all
//! points, and not among the points of one chart. The paper's curve and real runs with the same name have the
//! same colour.

use super::look::Look;
use crate::experiment::{Chart, Point, shown};

/// The origin of a curve, which determines how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The simulator: a line with markers.
    Ours,
    /// The paper: a dashed line.
    Paper,
    /// Real processes: hollow markers.
    Real,
}

/// One entry of the legend, with its points.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) label: String,
    pub(super) origin: Origin,
    pub(super) look: Look,
    /// The points, ascending by x. All are finite.
    pub(super) at: Vec<(f64, f64)>,
    /// The intervals of the points that have one: x, and the two ends.
    pub(super) ends: Vec<(f64, [f64; 2])>,
}

impl Curve {
    pub(super) fn is_reference(&self) -> bool {
        self.origin == Origin::Paper
    }
}

/// Returns the curves of a chart in the order of its legend. Curves without points are left out.
pub(super) fn gather(chart: &Chart, points: &[Point], real: &[Point]) -> Vec<Curve> {
    let mut names: Vec<&str> = Vec::new();
    let series = points.iter().map(|point| point.series.as_str());
    let series = series.chain(chart.reference.iter().map(|(name, _)| *name));
    for name in series.chain(real.iter().map(|point| point.series.as_str())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let shown = |points: &[Point], name: &str| -> Vec<(f64, f64)> {
        let points = points.iter().filter(|point| point.series == name && is_shown(chart, point));
        points.filter_map(|point| Some((point.x, chart.y.of(point)?))).collect()
    };
    let ends = |name: &str| -> Vec<(f64, [f64; 2])> {
        let points = points.iter().filter(|point| point.series == name && is_shown(chart, point));
        let ends = points.filter_map(|point| {
            let (low, high) = shown::ends(point, chart.y.name())?;
            Some((point.x, [low, high]))
        });
        ends.filter(|&(x, ends)| ends.iter().all(|&y| can_be_drawn(chart, (x, y)))).collect()
    };
    let curve = |place: usize, origin: Origin, at: Vec<(f64, f64)>| {
        let name = names[place];
        let label = match origin {
            Origin::Ours => name.to_owned(),
            Origin::Paper => format!("{name} (paper)"),
            Origin::Real => format!("real {name}"),
        };
        let ends = if origin == Origin::Ours { ends(name) } else { Vec::new() };
        Curve { label, origin, look: Look::of(place), at: in_order(chart, at), ends }
    };
    let places = || names.iter().copied().enumerate();
    let ours = places().map(|(place, name)| curve(place, Origin::Ours, shown(points, name)));
    let paper = places().flat_map(|(place, name)| {
        let named = chart.reference.iter().filter(move |(of, _)| *of == name);
        named.map(move |(_, at)| curve(place, Origin::Paper, at.to_vec()))
    });
    let real = places().map(|(place, name)| curve(place, Origin::Real, shown(real, name)));
    ours.chain(paper).chain(real).filter(|curve| !curve.at.is_empty()).collect()
}

fn is_shown(chart: &Chart, point: &Point) -> bool {
    chart.only.is_none_or(|(name, word)| point.word(name) == Some(word))
}

/// Sorts points by x and removes those that cannot be drawn on the axes.
fn in_order(chart: &Chart, mut at: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    at.retain(|&place| can_be_drawn(chart, place));
    at.sort_by(|a, b| a.0.total_cmp(&b.0));
    at
}

fn can_be_drawn(chart: &Chart, (x, y): (f64, f64)) -> bool {
    x.is_finite() && y.is_finite() && (y > 0.0 || !chart.log_y)
}

//! Draws a figure: frame, grid, axes with units, curves, and the legend to their right.
//!
//! A figure has 720 by 440 pixels, the width of a page's text. It is wider only if long names in the legend
//! would leave too little room for the data. Later elements cover earlier ones: grid, the paper's curves,
//! ours, real runs. A thin vertical line through a point of ours is the interval of its figure.

use super::curve::{Curve, Origin};
use super::look::px;
use super::scale::{Scale, written};
use crate::experiment::Chart;
use svg::node::element::{Description, Group, Line, Path, Rectangle, SVG, Text, Title};

const WIDTH_PX: f64 = 720.0;
const HEIGHT_PX: f64 = 440.0;
/// Least width of the data.
const DATA_WIDTH_MIN_PX: f64 = 400.0;

/// Room above the data for the title, and below the data for ticks and label.
const ABOVE_PX: f64 = 48.0;
const BELOW_PX: f64 = 58.0;
/// Room between the edge and the nearest element.
const MARGIN_PX: f64 = 14.0;

const TITLE_SIZE_PX: f64 = 15.0;
const TITLE_SIZE_MIN_PX: f64 = 11.0;
const LABEL_SIZE_PX: f64 = 13.0;
const TICK_SIZE_PX: f64 = 12.0;
/// Width of a letter relative to its height. It is a safe estimate for the sans-serif fonts in use.
const LETTER_WIDTH: f64 = 0.58;
const FONTS: &str = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif";

const INK: &str = "#222222";
const AXIS: &str = "#555555";
const GRID: &str = "#e4e4e4";
const PAPER: &str = "#ffffff";

/// The legend: a sample of the line, a gap, the name.
const SAMPLE_PX: f64 = 30.0;
const SAMPLE_GAP_PX: f64 = 8.0;
const LEGEND_GAP_PX: f64 = 22.0;
const LEGEND_PITCH_PX: f64 = 20.0;

/// Most points of a curve with a marker at each. A longer curve has markers at some points only.
const MARKERS_MAX: usize = 24;

/// A chart with its axes and its position in the picture.
pub(super) struct Figure<'a> {
    chart: &'a Chart,
    curves: &'a [Curve],
    x: Scale,
    y: Scale,
    /// The edges of the data's rectangle.
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    width: f64,
}

impl<'a> Figure<'a> {
    /// Computes the layout. `curves` must have at least one point.
    pub(super) fn new(chart: &'a Chart, curves: &'a [Curve]) -> Self {
        let places = || curves.iter().flat_map(|curve| curve.at.iter());
        let x = Scale::horizontal(places().map(|at| at.0));
        let ends = || curves.iter().flat_map(|curve| curve.ends.iter()).flat_map(|(_, ends)| *ends);
        let y = Scale::vertical(places().map(|at| at.1).chain(ends()), chart.log_y);
        let widest = |texts: &mut dyn Iterator<Item = String>, size: f64| {
            texts.map(|text| width_of(&text, size)).fold(0.0, f64::max)
        };
        let ticks = widest(&mut y.ticks.iter().map(|&tick| written(tick)), TICK_SIZE_PX);
        let left = (MARGIN_PX + LABEL_SIZE_PX + 12.0 + ticks + 8.0).round();
        let names = widest(&mut curves.iter().map(|curve| curve.label.clone()), TICK_SIZE_PX);
        let legend = (LEGEND_GAP_PX + SAMPLE_PX + SAMPLE_GAP_PX + names + MARGIN_PX).round();
        let width = WIDTH_PX.max(left + DATA_WIDTH_MIN_PX + legend);
        Self {
            chart,
            curves,
            x,
            y,
            left,
            right: width - legend,
            top: ABOVE_PX,
            bottom: HEIGHT_PX - BELOW_PX,
            width,
        }
    }

    pub(super) fn to_svg(&self) -> String {
        let (width, height) = (px(self.width), px(HEIGHT_PX));
        let document = SVG::new()
            .set("viewBox", format!("0 0 {width} {height}"))
            .set("width", width.as_str())
            .set("height", height.as_str())
            .set("role", "img")
            .set("font-family", FONTS)
            .set("fill", INK)
            .add(Title::new(self.chart.title))
            .add(Description::new().add(svg::node::Text::new(self.described())))
            .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", PAPER))
            .add(self.heading())
            .add(self.horizontal_axis())
            .add(self.vertical_axis());
        let drawn_last = |origin: Origin| match origin {
            Origin::Paper => 0,
            Origin::Ours => 1,
            Origin::Real => 2,
        };
        let mut curves: Vec<(usize, &Curve)> = self.curves.iter().enumerate().collect();
        curves.sort_by_key(|(_, curve)| drawn_last(curve.origin));
        let document =
            curves.into_iter().fold(document, |document, (at, curve)| document.add(self.curve(at, curve)));
        format!("{}\n", document.add(self.legend()))
    }

    /// Returns the description for readers who cannot see the picture.
    fn described(&self) -> String {
        let names: Vec<&str> = self.curves.iter().map(|curve| curve.label.as_str()).collect();
        format!("{} over {}: {}", self.chart.y_label, self.chart.x_label, names.join(", "))
    }

    fn heading(&self) -> Text {
        let room = self.width - 2.0 * MARGIN_PX;
        let fitting = TITLE_SIZE_PX * room / width_of(self.chart.title, TITLE_SIZE_PX);
        let size = fitting.clamp(TITLE_SIZE_MIN_PX, TITLE_SIZE_PX);
        text(self.chart.title, MARGIN_PX, 28.0, size).set("font-weight", "bold")
    }

    fn horizontal_axis(&self) -> Group {
        let middle = (self.left + self.right) / 2.0;
        let label =
            text(self.chart.x_label, middle, HEIGHT_PX - 16.0, LABEL_SIZE_PX).set("text-anchor", "middle");
        let axis =
            Group::new().add(line((self.left, self.bottom), (self.right, self.bottom), AXIS)).add(label);
        self.x.ticks.iter().fold(axis, |axis, &tick| {
            let x = self.place((tick, 0.0)).0;
            let figure =
                text(&written(tick), x, self.bottom + 20.0, TICK_SIZE_PX).set("text-anchor", "middle");
            axis.add(line((x, self.bottom), (x, self.bottom + 5.0), AXIS)).add(figure)
        })
    }

    fn vertical_axis(&self) -> Group {
        let (x, y) = (MARGIN_PX + LABEL_SIZE_PX - 3.0, (self.top + self.bottom) / 2.0);
        let label = text(self.chart.y_label, x, y, LABEL_SIZE_PX)
            .set("text-anchor", "middle")
            .set("transform", format!("rotate(-90 {} {})", px(x), px(y)));
        let axis = self.y.ticks.iter().fold(Group::new(), |axis, &tick| {
            let y = self.height(tick);
            let figure =
                text(&written(tick), self.left - 8.0, y + 4.0, TICK_SIZE_PX).set("text-anchor", "end");
            // The lowest line is the x axis.
            let grid = (y < self.bottom - 0.5).then(|| line((self.left, y), (self.right, y), GRID));
            let axis = axis.add(figure);
            grid.into_iter().fold(axis, Group::add)
        });
        axis.add(line((self.left, self.top), (self.left, self.bottom), AXIS)).add(label)
    }

    fn curve(&self, at: usize, curve: &Curve) -> Group {
        let places: Vec<(f64, f64)> = curve.at.iter().map(|&at| self.place(at)).collect();
        let every = if places.len() > MARKERS_MAX { places.len().div_ceil(MARKERS_MAX / 2) } else { 1 };
        // Curves that cover each other show their markers in turn.
        let marked = places.iter().skip(if every > 1 { at % every } else { 0 }).step_by(every);
        let marked: Vec<(f64, f64)> = marked.copied().collect();
        let whiskers = curve.ends.iter().map(|&(x, ends)| ends.map(|y| self.place((x, y))));
        whiskers.fold(strokes(curve, &places, &marked), |group, [low, high]| {
            group.add(line(low, high, curve.look.colour))
        })
    }

    fn legend(&self) -> Group {
        let left = self.right + LEGEND_GAP_PX;
        let pitch = LEGEND_PITCH_PX.min((self.bottom - self.top) / self.curves.len() as f64);
        self.curves.iter().enumerate().fold(Group::new(), |legend, (at, curve)| {
            let y = self.top + 8.0 + pitch * at as f64;
            let sample = [(left, y), (left + SAMPLE_PX, y)];
            let marker = [(left + SAMPLE_PX / 2.0, y)];
            let name = text(&curve.label, left + SAMPLE_PX + SAMPLE_GAP_PX, y + 4.0, TICK_SIZE_PX);
            legend.add(strokes(curve, &sample, &marker)).add(name)
        })
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.left + self.x.share(x) * (self.right - self.left), self.height(y))
    }

    fn height(&self, y: f64) -> f64 {
        self.bottom - self.y.share(y) * (self.bottom - self.top)
    }
}

/// Draws a curve's line through `places` and its markers at `marked`, in the style of its origin.
fn strokes(curve: &Curve, places: &[(f64, f64)], marked: &[(f64, f64)]) -> Group {
    let colour = curve.look.colour;
    let corners: Vec<String> = places.iter().map(|&(x, y)| format!("{} {}", px(x), px(y))).collect();
    let way = Path::new()
        .set("d", format!("M{}", corners.join("L")))
        .set("fill", "none")
        .set("stroke", colour)
        .set("stroke-linejoin", "round");
    let outlines: String = marked.iter().map(|&(x, y)| curve.look.outline(x, y)).collect();
    let markers = Path::new().set("d", outlines);
    match curve.origin {
        Origin::Ours => Group::new().add(way.set("stroke-width", "2")).add(
            // A thin rim in the colour of the paper separates overlapping markers.
            markers.set("fill", colour).set("stroke", PAPER).set("stroke-width", "0.8"),
        ),
        Origin::Paper => Group::new().add(way.set("stroke-width", "1.6").set("stroke-dasharray", "6 4")),
        Origin::Real => {
            Group::new().add(markers.set("fill", PAPER).set("stroke", colour).set("stroke-width", "1.8"))
        }
    }
}

fn text(content: &str, x: f64, y: f64, size: f64) -> Text {
    Text::new(content).set("x", px(x)).set("y", px(y)).set("font-size", px(size))
}

fn line(from: (f64, f64), to: (f64, f64), colour: &str) -> Line {
    Line::new()
        .set("x1", px(from.0))
        .set("y1", px(from.1))
        .set("x2", px(to.0))
        .set("y2", px(to.1))
        .set("stroke", colour)
}

/// Estimates the width of a text.
fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER_WIDTH
}

//! Draws as SVG: the root on the left, one column per level, and one line for each row without children.
//!
//! A row with children is in the middle between its first and last child, with its name above the line that
//! leads to them. The colours are Okabe and Ito's, which are distinguishable with any kind of colour vision.

use super::{Drawing, Role};
use svg::node::element::{Circle, Description, Group, Path, Rectangle, SVG, Text, Title};

const MARGIN_PX: f64 = 16.0;
/// Distance between two lines.
const PITCH_PX: f64 = 22.0;
/// Space between a name and the next column, for the branches.
const GAP_PX: f64 = 36.0;
const DOT_PX: f64 = 4.5;
const TEXT_SIZE_PX: f64 = 12.0;
/// Distance between a dot and its text.
const TEXT_GAP_PX: f64 = 8.0;
/// Width of a letter as a share of its height, large enough for common sans-serif fonts.
const LETTER_WIDTH: f64 = 0.6;
const FONTS: &str = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif";
const INK: &str = "#222222";
const PAPER: &str = "#ffffff";
const BRANCH: &str = "#999999";

/// Draws a topology as SVG.
pub fn to_svg(drawing: &Drawing) -> String {
    let places = Places::of(drawing);
    let (width, height) = (px(places.width), px(places.height));
    let processes = match drawing.processes {
        1 => "1 process".to_owned(),
        processes => format!("{processes} processes"),
    };
    let document = SVG::new()
        .set("viewBox", format!("0 0 {width} {height}"))
        .set("width", width.as_str())
        .set("height", height.as_str())
        .set("role", "img")
        .set("font-family", FONTS)
        .set("font-size", px(TEXT_SIZE_PX))
        .set("fill", INK)
        .add(Title::new(format!("Topology of {}", drawing.rows[0].name)))
        .add(Description::new().add(svg::node::Text::new(processes)))
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", PAPER))
        .add(branches(drawing, &places));
    let mut dots = Group::new();
    let mut names = Group::new();
    for (row, &(x, y)) in drawing.rows.iter().zip(&places.at) {
        let dot = Circle::new().set("cx", px(x)).set("cy", px(y)).set("r", px(DOT_PX));
        dots = dots.add(dot.set("fill", colour_of(row.role)));
        names = names.add(written(row.label(), x + TEXT_GAP_PX, y, row.role));
    }
    let remainder =
        drawing.remainder().map(|text| written(text, MARGIN_PX, places.height - MARGIN_PX, Role::BackEnd));
    let document = document.add(dots).add(names);
    format!("{}\n", remainder.into_iter().fold(document, SVG::add))
}

/// The coordinates of a drawing.
struct Places {
    /// The dot of each row.
    at: Vec<(f64, f64)>,
    width: f64,
    height: f64,
}

impl Places {
    fn of(drawing: &Drawing) -> Self {
        let rows = &drawing.rows;
        let depth_max = rows.iter().map(|row| row.depth).max().unwrap_or(0);
        let mut name_widths = vec![0.0f64; depth_max + 1];
        let mut has_children = vec![false; rows.len()];
        for row in rows {
            let width = row.label().chars().count() as f64 * TEXT_SIZE_PX * LETTER_WIDTH;
            name_widths[row.depth] = name_widths[row.depth].max(width);
            row.parent.into_iter().for_each(|parent| has_children[parent] = true);
        }
        let mut x = MARGIN_PX;
        let columns: Vec<f64> = name_widths
            .iter()
            .map(|width| {
                let column = x;
                x += TEXT_GAP_PX + width + GAP_PX;
                column
            })
            .collect();

        let mut y = MARGIN_PX;
        let mut at: Vec<(f64, f64)> = rows
            .iter()
            .zip(&has_children)
            .map(|(row, &has_children)| {
                y += if has_children { 0.0 } else { PITCH_PX };
                (columns[row.depth], y)
            })
            .collect();
        // Children come after their parents in the rows, so in reverse order each child is placed before its
        // parent.
        let mut span: Vec<Option<(f64, f64)>> = vec![None; rows.len()];
        for (number, row) in rows.iter().enumerate().rev() {
            if let Some((first, last)) = span[number] {
                at[number].1 = (first + last) / 2.0;
            }
            if let Some(parent) = row.parent {
                let own = at[number].1;
                span[parent] = Some((own, span[parent].map_or(own, |(_, last)| last)));
            }
        }
        let below = if drawing.left_out > 0 { 2.0 * PITCH_PX } else { PITCH_PX };
        Self { at, width: x - GAP_PX + MARGIN_PX, height: y + below }
    }
}

/// All branches in one path: from the parent, along the trunk, to the child.
fn branches(drawing: &Drawing, places: &Places) -> Path {
    let branch = |(row, &(x, y)): (&super::Row, &(f64, f64))| {
        row.parent.map(|parent| {
            let (from_x, from_y) = places.at[parent];
            format!("M{} {}H{}V{}H{}", px(from_x), px(from_y), px(x - GAP_PX / 2.0), px(y), px(x))
        })
    };
    let way: String = drawing.rows.iter().zip(&places.at).filter_map(branch).collect();
    Path::new().set("d", way).set("fill", "none").set("stroke", BRANCH)
}

/// A name beside a leaf, or above the line that leads to children.
fn written(text: String, x: f64, y: f64, role: Role) -> Text {
    let up = if role == Role::BackEnd { -0.35 * TEXT_SIZE_PX } else { 0.4 * TEXT_SIZE_PX };
    Text::new(text).set("x", px(x)).set("y", px(y - up))
}

fn colour_of(role: Role) -> &'static str {
    match role {
        Role::FrontEnd => "#d55e00",
        Role::Inner => "#0072b2",
        Role::BackEnd => "#009e73",
    }
}

/// A coordinate in pixels, rounded to a tenth.
fn px(place: f64) -> String {
    format!("{}", (place * 10.0).round() / 10.0)
}

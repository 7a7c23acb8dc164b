//! What a series looks like: a colour and a marker by its place.
//!
//! The colours are Okabe and Ito's, which people with any kind of colour vision tell apart (M. Okabe, K. Ito, *Color
//! Universal Design*, 2008), without their yellow, too pale for a line on white. There is one marker more than there
//! are colours, so that places that share a colour don't share a marker.

/// Blue, vermilion, bluish green, reddish purple, orange, sky blue, black.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// How far a marker reaches from its middle, in px.
const REACH_PX: f64 = 4.5;

/// A circle of this radius has the weight of the other markers.
const CIRCLE_RADIUS_PX: f64 = 4.2;

/// Colour and marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) colour: &'static str,
    marker: usize,
}

/// The corners of a marker around its middle, as shares of its reach; y grows downwards. No corners: a circle.
const MARKERS: [&[(f64, f64)]; 8] = [
    &[],
    &[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    &[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
    &[(0.0, -1.25), (1.1, 0.0), (0.0, 1.25), (-1.1, 0.0)],
    &[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
    &[
        (-0.4, -1.1),
        (0.4, -1.1),
        (0.4, -0.4),
        (1.1, -0.4),
        (1.1, 0.4),
        (0.4, 0.4),
        (0.4, 1.1),
        (-0.4, 1.1),
        (-0.4, 0.4),
        (-1.1, 0.4),
        (-1.1, -0.4),
        (-0.4, -0.4),
    ],
    &[(0.0, -1.15), (1.1, -0.35), (0.68, 0.95), (-0.68, 0.95), (-1.1, -0.35)],
    &[(-1.15, 0.0), (0.85, -1.1), (0.85, 1.1)],
];

impl Look {
    /// The look of the series at this place.
    pub(super) fn of(place: usize) -> Self {
        Self { colour: COLOURS[place % COLOURS.len()], marker: place % MARKERS.len() }
    }

    /// The outline of the marker around (x, y), in the language of SVG paths.
    pub(super) fn outline(self, x: f64, y: f64) -> String {
        let corners = MARKERS[self.marker];
        if corners.is_empty() {
            let (left, y) = (px(x - CIRCLE_RADIUS_PX), px(y));
            let (radius, across) = (px(CIRCLE_RADIUS_PX), px(2.0 * CIRCLE_RADIUS_PX));
            return format!(
                "M{left} {y}a{radius} {radius} 0 1 0 {across} 0a{radius} {radius} 0 1 0 -{across} 0z"
            );
        }
        let corner = |&(dx, dy): &(f64, f64)| format!("{} {}", px(x + dx * REACH_PX), px(y + dy * REACH_PX));
        let corners: Vec<String> = corners.iter().map(corner).collect();
        format!("M{}z", corners.join("L"))
    }
}

/// A place in pixels, to a tenth: finer than anybody sees, and the same wherever the last bits of a float differ.
pub(super) fn px(place: f64) -> String {
    let tenths = (place * 10.0).round() / 10.0;
    // Adding zero makes minus zero plain.
    format!("{}", tenths + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_series_as_a_chart_ever_has_look_different() {
        let looks: Vec<Look> = (0..COLOURS.len() * MARKERS.len()).map(Look::of).collect();
        for (place, look) in looks.iter().enumerate() {
            assert!(!looks[..place].contains(look), "place {place} looks like one before it");
        }
    }

    #[test]
    fn places_are_written_to_a_tenth() {
        assert_eq!([px(12.0), px(12.3456), px(-0.04)], ["12", "12.3", "0"]);
    }
}

//! The look of a series: a colour and a marker, chosen by its index.
//!
//! The colours are Okabe and Ito's, which people with any kind of colour vision can distinguish (M. Okabe, K.
//! Ito, *Color Universal Design*, 2008). Their yellow is left out, because it is too pale for a line on
//! white. There is one more marker than colours, so that series with the same colour have different markers.

/// Blue, vermilion, bluish green, reddish purple, orange, sky blue, black.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Distance from a marker's middle to its edge, in px.
const REACH_PX: f64 = 4.5;

/// Radius of the circle marker. With it the circle looks as large as the other markers.
const CIRCLE_RADIUS_PX: f64 = 4.2;

/// Colour and marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) colour: &'static str,
    marker: usize,
}

/// The corners of a marker around its middle, as shares of its reach. y grows downwards. No corners mean a
/// circle.
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
    /// Returns the look of the series at this index.
    pub(super) fn of(place: usize) -> Self {
        Self { colour: COLOURS[place % COLOURS.len()], marker: place % MARKERS.len() }
    }

    /// Returns the outline of the marker around (x, y), as the data of an SVG path.
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

/// Formats a position in pixels, rounded to a tenth. This is finer than visible and hides differences in the
/// last bits of floats.
pub(super) fn px(place: f64) -> String {
    let tenths = (place * 10.0).round() / 10.0;
    // Adding zero turns minus zero into zero.
    format!("{}", tenths + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_series_of_a_chart_look_different() {
        let looks: Vec<Look> = (0..COLOURS.len() * MARKERS.len()).map(Look::of).collect();
        for (place, look) in looks.iter().enumerate() {
            assert!(!looks[..place].contains(look), "place {place} looks like one before it");
        }
    }

    #[test]
    fn positions_are_rounded_to_a_tenth() {
        assert_eq!([px(12.0), px(12.3456), px(-0.04)], ["12", "12.3", "0"]);
    }
}

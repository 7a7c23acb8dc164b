//! Formats figures with their intervals, for tables of findings.
//!
//! A figure with an interval reads `16.4 ms (16.1 to 16.8)`. A change against another series is measured within each
//! seed. If its interval includes zero, then the order of the two series depends on the seed, and the change is
//! followed by [`NOT_DECIDED`]: it is no finding.

use super::point::Point;
use super::runs::{high_of, low_of};

/// Says that the order of two series depends on the seed.
pub const NOT_DECIDED: &str = "not decided";

/// Formats a figure with its unit and its interval. Returns `None` if the point does not have the figure.
pub fn figure(point: &Point, name: &str, decimals: usize, unit: &str) -> Option<String> {
    scaled(point, name, 1.0, decimals, unit)
}

/// Formats a share as a percentage with its interval. Returns `None` if the point does not have the share.
pub fn share(point: &Point, name: &str, decimals: usize) -> Option<String> {
    scaled(point, name, 100.0, decimals, " %")
}

fn scaled(point: &Point, name: &str, factor: f64, decimals: usize, unit: &str) -> Option<String> {
    let written = |figure: f64| written(figure * factor, decimals);
    let figure = written(point.figure(name).filter(|figure| figure.is_finite())?);
    Some(match ends(point, name) {
        Some((low, high)) => format!("{figure}{unit} ({} to {})", written(low), written(high)),
        None => format!("{figure}{unit}"),
    })
}

/// Formats a change in percent with its interval, and says if it is not decided. Returns `None` if the point does
/// not have the change.
pub fn change(point: &Point, name: &str) -> Option<String> {
    let percent = point.figure(name).filter(|percent| percent.is_finite())?;
    Some(signed(percent, ends(point, name), 1))
}

/// Formats a figure relative to another one as a change in whole percent: 0.12 is `−88 %`.
pub fn relative(point: &Point, name: &str) -> Option<String> {
    let percent = |relative: f64| 100.0 * (relative - 1.0);
    let mean = point.figure(name).filter(|relative| relative.is_finite())?;
    let ends = ends(point, name).map(|(low, high)| (percent(low), percent(high)));
    Some(signed(percent(mean), ends, 0))
}

/// Returns whether the interval of a change includes zero, so that the order of the two series is not decided.
pub fn is_undecided(point: &Point, name: &str) -> bool {
    ends(point, name).is_some_and(|(low, high)| low <= 0.0 && high >= 0.0)
}

fn signed(percent: f64, ends: Option<(f64, f64)>, decimals: usize) -> String {
    let with_sign = |figure: f64| {
        let figure = written(figure, decimals);
        if figure.starts_with('−') { figure } else { format!("+{figure}") }
    };
    match ends {
        Some((low, high)) => {
            let shown = format!("{} % ({} to {})", with_sign(percent), with_sign(low), with_sign(high));
            if low <= 0.0 && high >= 0.0 { format!("{shown}, {NOT_DECIDED}") } else { shown }
        }
        None => format!("{} %", with_sign(percent)),
    }
}

/// Returns the ends of a figure's interval, if it has one.
pub fn ends(point: &Point, name: &str) -> Option<(f64, f64)> {
    Some((point.figure(&low_of(name))?, point.figure(&high_of(name))?))
}

/// Formats a figure with a proper minus sign.
pub fn written(figure: f64, decimals: usize) -> String {
    let shown = format!("{figure:.decimals$}");
    let is_zero = shown.trim_start_matches('-').chars().all(|digit| matches!(digit, '0' | '.'));
    if is_zero { shown.trim_start_matches('-').to_owned() } else { shown.replace('-', "−") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(figure: f64, ends: Option<(f64, f64)>) -> Point {
        let point = Point::of_calls("s", 1.0, vec![1.0], 1.0, 1.0).with("change", figure);
        match ends {
            Some((low, high)) => point.with("change_low", low).with("change_high", high),
            None => point,
        }
    }

    #[test]
    fn figures_are_shown_with_their_interval() {
        let shown = |figure, ends| super::figure(&point(figure, ends), "change", 1, " ms").unwrap();
        assert_eq!(shown(16.44, Some((16.06, 16.81))), "16.4 ms (16.1 to 16.8)");
        assert_eq!(shown(16.44, None), "16.4 ms");
        assert_eq!(share(&point(0.9712, Some((0.96, 0.98))), "change", 1).unwrap(), "97.1 % (96.0 to 98.0)");
        assert_eq!(super::figure(&point(f64::NAN, None), "change", 1, " ms"), None);
        assert_eq!(super::figure(&point(1.0, None), "other", 1, " ms"), None);
    }

    #[test]
    fn a_change_whose_interval_includes_zero_is_not_decided() {
        let shown = |figure, ends| change(&point(figure, ends), "change").unwrap();
        assert_eq!(shown(-44.2, Some((-50.06, -38.0))), "−44.2 % (−50.1 to −38.0)");
        assert_eq!(shown(-1.2, Some((-4.0, 2.0))), "−1.2 % (−4.0 to +2.0), not decided");
        assert_eq!(shown(-0.01, None), "+0.0 %");
        assert!(is_undecided(&point(-1.2, Some((-4.0, 2.0))), "change"));
        assert!(!is_undecided(&point(-1.2, Some((-4.0, -0.1))), "change"));
    }

    #[test]
    fn a_relative_figure_is_shown_as_a_change() {
        let shown = |figure, ends| relative(&point(figure, ends), "change").unwrap();
        assert_eq!(shown(0.12, Some((0.10, 0.144))), "−88 % (−90 to −86)");
        assert_eq!(shown(1.02, Some((0.96, 1.08))), "+2 % (−4 to +8), not decided");
    }
}

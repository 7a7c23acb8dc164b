//! Tests of the properties that readers of pictures, and git, rely on.

use super::{NothingToDraw, draw};
use crate::evaluation::example::{EXAMPLE, RESPONSE, TAIL, point, points};
use crate::evaluation::record::{from_json, rounded, to_json};
use crate::experiment::{ALL, Chart, Point};
use std::collections::BTreeSet;

/// Returns the text of each element that has one, with entities resolved.
fn texts(svg: &str) -> Vec<String> {
    let after_tag = svg.split('>').map(|piece| piece.split('<').next().unwrap_or_default().trim());
    let shown = after_tag.filter(|text| !text.is_empty());
    shown.map(|text| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).collect()
}

#[test]
fn the_same_points_give_the_same_bytes() {
    let drawn = |points: &[Point]| draw(&RESPONSE, points, &[]).unwrap();
    let points = rounded(points());
    assert_eq!(drawn(&points), drawn(&points));
    assert_eq!(
        drawn(&points),
        drawn(&from_json(&to_json(&points)).unwrap()),
        "a file gives the picture of its run"
    );
    let mut moved = points.clone();
    moved[0].response_ms_mean += 1.0;
    assert_ne!(drawn(&points), drawn(&moved));
}

#[test]
fn title_axes_and_every_series_are_named() {
    for chart in EXAMPLE.charts {
        let svg = draw(chart, &points(), &[]).unwrap();
        let texts = texts(&svg);
        for text in [chart.title, chart.x_label, chart.y_label, "adaptive", "flat"] {
            assert!(texts.iter().any(|shown| shown == text), "{}: {text:?} in {texts:?}", chart.file);
        }
    }
}

#[test]
fn the_papers_curve_is_dashed_and_labelled() {
    let svg = draw(&RESPONSE, &points(), &[]).unwrap();
    assert!(texts(&svg).contains(&"flat (paper)".to_owned()));
    assert!(svg.contains("stroke-dasharray"));
    assert!(!draw(&TAIL, &points(), &[]).unwrap().contains("stroke-dasharray"));
}

#[test]
fn real_runs_are_marks_in_the_colour_of_their_series() {
    let real = [point("flat", 60.0, 130.0), point("unheard", 60.0, 90.0)];
    let svg = draw(&RESPONSE, &points(), &real).unwrap();
    let texts = texts(&svg);
    assert!(texts.contains(&"real flat".to_owned()) && texts.contains(&"real unheard".to_owned()));
    let hollow = svg.lines().filter(|line| line.contains(r##"fill="#ffffff" stroke="#d55e00""##));
    assert_eq!(hollow.count(), 2, "one in the data, one in the legend");
}

#[test]
fn intervals_are_lines_within_the_axes() {
    let with_ends = |low: f64, high: f64| {
        let mut points = points();
        points[0] = points[0].clone().with("response_ms_mean_low", low).with("response_ms_mean_high", high);
        draw(&RESPONSE, &points, &[]).unwrap()
    };
    let whiskers = |svg: &str| {
        let colour = crate::plot::look::Look::of(0).colour;
        svg.lines().filter(|line| line.starts_with("<line") && line.contains(colour)).count()
    };
    assert_eq!(whiskers(&draw(&RESPONSE, &points(), &[]).unwrap()), 0);
    assert_eq!(whiskers(&with_ends(40.0, 900.0)), 1);
    assert!(
        texts(&with_ends(40.0, 9_000.0)).contains(&"8,000".to_owned()),
        "the axis has room for the interval"
    );
}

#[test]
fn a_chart_shows_only_points_with_its_word() {
    let other = Point { series: "coarse".into(), ..point("", 70.0, 1.0).with("workload", "coarse") };
    let mut all = points();
    all.push(other);
    assert!(!texts(&draw(&TAIL, &all, &[]).unwrap()).contains(&"coarse".to_owned()));
    assert!(texts(&draw(&RESPONSE, &all, &[]).unwrap()).contains(&"coarse".to_owned()));
}

#[test]
fn points_outside_the_axes_are_not_drawn() {
    let zero = [point("flat", 50.0, 0.0), point("adaptive", 50.0, f64::NAN)];
    let nothing = Err(NothingToDraw { file: "example-tail", points: 2 });
    assert_eq!(draw(&TAIL, &zero, &[]), nothing, "no logarithm of zero");
    assert!(draw(&RESPONSE, &zero, &[]).is_ok());
    assert!(draw(&RESPONSE, &[], &[]).is_err(), "the paper's curve alone is not enough");
}

#[test]
fn every_position_is_within_the_picture() {
    let long_named =
        point("a series whose name is as long as names of series ever become, and then some", 50.0, 9e5);
    for points in [points(), vec![long_named], vec![point("flat", 4.0, 1e-3), point("flat", 4e6, 1e9)]] {
        let svg = draw(&RESPONSE, &points, &[]).unwrap();
        let number = |line: &str, name: &str| -> Option<f64> {
            line.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok()
        };
        let width = number(&svg, "width").unwrap();
        for line in svg.lines() {
            let inside = |name, max: f64| number(line, name).is_none_or(|at| (0.0..=max).contains(&at));
            assert!(["x", "x1", "x2"].iter().all(|name| inside(name, width)), "{line}");
            assert!(["y", "y1", "y2"].iter().all(|name| inside(name, 440.0)), "{line}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}

#[test]
fn all_files_of_all_experiments_have_different_names() {
    let charts: Vec<&Chart> = ALL.iter().flat_map(|experiment| experiment.charts).collect();
    let names: BTreeSet<&str> = charts.iter().map(|chart| chart.file).collect();
    assert_eq!(names.len(), charts.len(), "two charts have the same file name");
    let experiments: BTreeSet<&str> = ALL.iter().map(|experiment| experiment.name).collect();
    assert_eq!(experiments.len(), ALL.len());
}

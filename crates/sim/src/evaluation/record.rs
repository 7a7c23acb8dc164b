//! Points in files: JSON to keep them and draw them again, CSV for other plotting programs.
//!
//! Figures are kept to six digits. This is more than the randomness of a simulation justifies, and few enough
//! that the last bits of a float do not show as a change. Call [`rounded`] before everything else, so that a
//! picture drawn from a run equals the picture drawn from its file.
//!
//! JSON has no number for a missing figure, such as the response time if no call was answered. Such a figure
//! is written as `null`. An absent or null figure is read as not-a-number, which no chart draws.

use crate::experiment::point::FIGURES;
use crate::experiment::{Point, Value};
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;
use thiserror::Error;

/// The reason why a text cannot be read as points.
#[derive(Debug, Error)]
pub enum UnreadablePoints {
    /// The text is not a JSON array of objects.
    #[error("expected a JSON array of points: {0}")]
    Json(#[from] serde_json::Error),
    /// A field is missing or has a wrong type.
    #[error("point {at}: {field} is {given}; allowed: {allowed}")]
    Field {
        /// The point's place, from 0.
        at: usize,
        /// The field's name.
        field: String,
        /// The value that was found, as JSON.
        given: String,
        /// The values that are allowed.
        allowed: &'static str,
    },
}

/// Rounds every figure of the points to six digits.
pub fn rounded(mut points: Vec<Point>) -> Vec<Point> {
    for point in &mut points {
        let Point { series: _, x, response_ms_mean, response_ms_p99, throughput_per_s, coverage_mean, more } =
            point;
        let more = more.values_mut().filter_map(|value| match value {
            Value::Number(number) => Some(number),
            Value::Text(_) => None,
        });
        let figures = [x, response_ms_mean, response_ms_p99, throughput_per_s, coverage_mean];
        figures.into_iter().chain(more).for_each(|figure| *figure = six_digits(*figure));
    }
    points
}

fn six_digits(figure: f64) -> f64 {
    format!("{figure:.5e}").parse().expect("invariant: a formatted number is a number")
}

/// Formats the points as a JSON array, one point a line, without a newline at the end.
pub fn to_json(points: &[Point]) -> String {
    let lines = points.iter().map(|point| {
        serde_json::to_string(point).expect("invariant: points have string keys and no failing parts")
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "[]".into() } else { format!("[\n{}\n]", lines.join(",\n")) }
}

/// Reads the points of a JSON array, as [`to_json`] writes it.
///
/// # Errors
///
/// The text must be such an array. The error names the point and the field.
pub fn from_json(text: &str) -> Result<Vec<Point>, UnreadablePoints> {
    let objects: Vec<Map<String, Json>> = serde_json::from_str(text)?;
    objects.into_iter().enumerate().map(|(at, object)| point_of(at, object)).collect()
}

fn point_of(at: usize, mut object: Map<String, Json>) -> Result<Point, UnreadablePoints> {
    let refused = |field: &str, given: &Json, allowed| UnreadablePoints::Field {
        at,
        field: field.into(),
        given: given.to_string(),
        allowed,
    };
    let series = match object.remove("series").unwrap_or_default() {
        Json::String(series) => series,
        given => return Err(refused("series", &given, "a name")),
    };
    let x = match object.remove("x").unwrap_or_default() {
        Json::Number(x) => x.as_f64().unwrap_or(f64::NAN),
        given => return Err(refused("x", &given, "a number")),
    };
    let mut figures = [f64::NAN; FIGURES.len()];
    for (name, figure) in FIGURES.iter().zip(&mut figures) {
        match object.remove(*name).unwrap_or_default() {
            Json::Null => {}
            Json::Number(number) => *figure = number.as_f64().unwrap_or(f64::NAN),
            given => return Err(refused(name, &given, "a number or null")),
        }
    }
    let [response_ms_mean, response_ms_p99, throughput_per_s, coverage_mean] = figures;
    let more = object.into_iter().map(|(name, value)| match value {
        Json::Null => Ok((name, Value::Number(f64::NAN))),
        Json::Number(number) => Ok((name, Value::Number(number.as_f64().unwrap_or(f64::NAN)))),
        Json::String(text) => Ok((name, Value::Text(text))),
        given => Err(refused(&name, &given, "a number or a word")),
    });
    let more = more.collect::<Result<_, _>>()?;
    Ok(Point { series, x, response_ms_mean, response_ms_p99, throughput_per_s, coverage_mean, more })
}

/// Returns the names of all fields of these points: first the common fields, then the experiments' own,
/// sorted.
pub fn columns(points: &[Point]) -> Vec<String> {
    let added: BTreeSet<&String> = points.iter().flat_map(|point| point.more.keys()).collect();
    let common = ["series", "x"].into_iter().chain(FIGURES).map(str::to_owned);
    common.chain(added.into_iter().cloned()).collect()
}

/// Returns the value of a point in a column of [`columns`]. Returns `None` if it is missing or not finite.
pub fn cell(point: &Point, column: &str) -> Option<Value> {
    let value = match column {
        "series" => Value::Text(point.series.clone()),
        "x" => Value::Number(point.x),
        name => match point.figure(name) {
            Some(figure) => Value::Number(figure),
            None => point.more.get(name)?.clone(),
        },
    };
    value.number().is_none_or(f64::is_finite).then_some(value)
}

/// Formats the points as CSV (RFC 4180) with a heading, without a newline at the end. A missing value is an
/// empty field.
pub fn to_csv(points: &[Point]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let columns = columns(points);
    let written = "invariant: writing to a vector cannot fail, and all rows are as long as the heading";
    writer.write_record(&columns).expect(written);
    for point in points {
        let cells = columns.iter().map(|column| match cell(point, column) {
            None => String::new(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Text(text)) => text,
        });
        writer.write_record(cells).expect(written);
    }
    let bytes = writer.into_inner().expect(written);
    let text = String::from_utf8(bytes).expect("invariant: fields are UTF-8");
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::example::{point, points};
    use super::*;

    #[test]
    fn json_is_one_array_with_a_point_a_line() {
        let text = to_json(&rounded(vec![point("flat", 50.0, 80.0), point("adaptive", 50.0, 200.0 / 3.0)]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!((lines[0], lines[3]), ("[", "]"));
        assert_eq!(
            lines[2],
            r#"{"series":"adaptive","x":50.0,"response_ms_mean":66.6667,"response_ms_p99":266.667,"throughput_per_s":333.333,"coverage_mean":1.0,"polls":2.0,"workload":"fine, \"exponential\""}"#
        );
        assert_eq!(to_json(&[]), "[]");
    }

    #[test]
    fn written_points_are_read_unchanged() {
        let points = rounded(points());
        assert_eq!(from_json(&to_json(&points)).unwrap(), points);
    }

    #[test]
    fn a_missing_figure_is_null_in_json_and_empty_in_csv() {
        let lost = Point { response_ms_mean: f64::NAN, ..point("flat", 1.0, 1.0) };
        let text = to_json(std::slice::from_ref(&lost));
        assert!(text.contains(r#""response_ms_mean":null"#), "{text}");
        assert!(from_json(&text).unwrap()[0].response_ms_mean.is_nan());
        assert!(to_csv(&[lost]).contains("\nflat,1,,4,"));
        let bare = from_json(r#"[{"series": "flat", "x": 1, "throughput_per_s": 7}]"#).unwrap();
        assert!(bare[0].throughput_per_s == 7.0 && bare[0].coverage_mean.is_nan());
    }

    #[test]
    fn errors_name_the_point_and_the_field() {
        let refused = |text| from_json(text).unwrap_err().to_string();
        assert_eq!(refused(r#"[{"series": "flat"}]"#), "point 0: x is null; allowed: a number");
        assert_eq!(
            refused(r#"[{"series": "flat", "x": 1, "coverage_mean": "all"}]"#),
            r#"point 0: coverage_mean is "all"; allowed: a number or null"#
        );
        assert_eq!(
            refused(r#"[{"series": "flat", "x": 1, "loads": [1]}]"#),
            "point 0: loads is [1]; allowed: a number or a word"
        );
        assert!(refused("{}").starts_with("expected a JSON array of points"));
    }

    #[test]
    fn csv_has_the_union_of_all_fields() {
        let mut plain = point("flat", 0.5, 80.0);
        plain.more.clear();
        let text = to_csv(&[plain, point("adaptive", 50.0, 60.0).with("hops", 3.0)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "series,x,response_ms_mean,response_ms_p99,throughput_per_s,coverage_mean,hops,polls,workload"
        );
        assert_eq!(lines[1], "flat,0.5,80,320,333.3333333333333,1,,,");
        assert_eq!(lines[2], r#"adaptive,50,60,240,333.3333333333333,1,3,2,"fine, ""exponential""""#);
    }
}

//! Filters on attributes: `{"label": "7", "year": {"min": 2000}, "kind": ["a", "b"]}`.
//!
//! A row matches if every named attribute has an allowed value: the given one, one of a list, or a number in
//! a range with both ends in it. A row without the attribute does not match.

use crate::attributes::{Attributes, Column};
use crate::limits::{FILTER_ATTRIBUTES_MAX, FILTER_VALUES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use treefold_operators::number::Number;

/// Conditions by the name of their attribute. Without conditions every row matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Filter(pub BTreeMap<String, Condition>);

/// The allowed values of one attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Condition {
    /// This value.
    Is(Value),
    /// One of these.
    Any(Vec<Value>),
    /// A number in this range.
    Within(Range),
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A number. Whole numbers compare exactly.
    Number(Number),
    /// A text.
    Text(String),
}

/// A range of numbers, with its ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Least number; none if absent.
    #[serde(default)]
    pub min: Option<Number>,
    /// Greatest number; none if absent.
    #[serde(default)]
    pub max: Option<Number>,
}

/// Why a filter is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FilterError {
    /// No vector has this attribute.
    #[error("{field} names the attribute {name:?}; allowed: {known}")]
    UnknownAttribute {
        /// The parameter.
        field: &'static str,
        /// The attribute.
        name: String,
        /// The attributes of the vectors, or the reason why there are none.
        known: String,
    },
    /// Too many attributes.
    #[error("filter names {0} attributes; at most {FILTER_ATTRIBUTES_MAX} are allowed")]
    Attributes(usize),
    /// Too many values for one attribute.
    #[error("filter allows {found} values of {name}; at most {FILTER_VALUES_MAX} are allowed")]
    Values {
        /// The attribute.
        name: String,
        /// The number of values.
        found: usize,
    },
}

/// A filter for the rows of one partition: for each attribute, its column and which of its values are allowed.
pub(crate) struct Matching<'a>(Vec<(&'a Column, Vec<bool>)>);

impl Filter {
    /// Looks up the values of the filter among those of the partition.
    pub(crate) fn compile<'a>(&self, attributes: &'a Attributes) -> Result<Matching<'a>, FilterError> {
        if self.0.len() > FILTER_ATTRIBUTES_MAX {
            return Err(FilterError::Attributes(self.0.len()));
        }
        let mut columns = Vec::with_capacity(self.0.len());
        for (name, condition) in &self.0 {
            let column = attributes.column(name).ok_or_else(|| unknown("filter", name, attributes))?;
            if let Condition::Any(values) = condition
                && values.len() > FILTER_VALUES_MAX
            {
                return Err(FilterError::Values { name: name.clone(), found: values.len() });
            }
            let allowed = column.values.iter().map(|value| condition.allows(value)).collect();
            columns.push((column, allowed));
        }
        Ok(Matching(columns))
    }
}

/// The error of a parameter that names an attribute that no vector has.
pub(crate) fn unknown(field: &'static str, name: &str, attributes: &Attributes) -> FilterError {
    let names: Vec<&str> = attributes.names().collect();
    let known = match names.is_empty() {
        true => "none, because the service was started without a file of attributes".to_owned(),
        false => names.join(", "),
    };
    FilterError::UnknownAttribute { field, name: name.to_owned(), known }
}

impl Condition {
    fn allows(&self, found: &str) -> bool {
        match self {
            Self::Is(value) => value.is(found),
            Self::Any(values) => values.iter().any(|value| value.is(found)),
            Self::Within(Range { min, max }) => Number::parse(found).is_some_and(|number| {
                min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
            }),
        }
    }
}

impl Value {
    fn is(&self, found: &str) -> bool {
        match self {
            Self::Text(text) => text == found,
            Self::Flag(flag) => found == if *flag { "true" } else { "false" },
            Self::Number(number) => Number::parse(found) == Some(*number),
        }
    }
}

impl Matching<'_> {
    /// True if every row matches.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, at: usize) -> bool {
        self.0.iter().all(|(column, allowed)| column.code(at).is_some_and(|code| allowed[code]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Gathering;

    fn attributes(rows: &[&[(&str, &str)]]) -> Attributes {
        let mut gathering = Gathering::default();
        for row in rows {
            gathering
                .add(row.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        }
        gathering.end(&["absent".to_owned()])
    }

    fn matching(filter: &str) -> Result<Vec<usize>, String> {
        let attributes = attributes(&[
            &[("label", "7"), ("year", "2001"), ("new", "true")],
            &[("label", "x"), ("year", "1999.5")],
            &[("year", "late")],
            &[("label", "7.0")],
        ]);
        let filter: Filter = serde_json::from_str(filter).map_err(|error| error.to_string())?;
        let matching = filter.compile(&attributes).map_err(|error| error.to_string())?;
        Ok((0..4).filter(|row| matching.matches(*row)).collect())
    }

    #[test]
    fn conditions_select_rows() {
        for (filter, rows) in [
            ("{}", vec![0, 1, 2, 3]),
            (r#"{"label": "7"}"#, vec![0]),
            (r#"{"label": 7}"#, vec![0, 3]),
            (r#"{"label": ["7", "x"]}"#, vec![0, 1]),
            (r#"{"label": []}"#, vec![]),
            (r#"{"year": {"min": 2000}}"#, vec![0]),
            (r#"{"year": {"min": 1999.5, "max": 2001}}"#, vec![0, 1]),
            (r#"{"year": {"max": 3000}, "label": "x"}"#, vec![1]),
            (r#"{"new": true}"#, vec![0]),
            (r#"{"new": false}"#, vec![]),
            (r#"{"absent": "x"}"#, vec![]),
        ] {
            assert_eq!(matching(filter), Ok(rows), "{filter}");
        }
    }

    #[test]
    fn ids_and_times_of_64_bits_compare_exactly() {
        let rows = ["9007199254740992", "9007199254740993", "18446744073709551615", "9007199254740992.0"];
        let rows: Vec<Vec<(&str, &str)>> = rows.iter().map(|row| vec![("id_of", *row)]).collect();
        let attributes = attributes(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for (filter, expected) in [
            (r#"{"id_of": 9007199254740993}"#, vec![1]),
            (r#"{"id_of": 9007199254740992}"#, vec![0, 3]),
            (r#"{"id_of": 18446744073709551615}"#, vec![2]),
            (r#"{"id_of": 18446744073709551614}"#, vec![]),
            (r#"{"id_of": {"min": 9007199254740993}}"#, vec![1, 2]),
            (r#"{"id_of": {"max": 9007199254740992}}"#, vec![0, 3]),
            (r#"{"id_of": {"max": 9007199254740992.5}}"#, vec![0, 3]),
        ] {
            let filter: Filter = serde_json::from_str(filter).unwrap();
            let matching = filter.compile(&attributes).unwrap();
            let found: Vec<usize> = (0..4).filter(|row| matching.matches(*row)).collect();
            assert_eq!(found, expected, "{filter:?}");
        }
    }

    #[test]
    fn unknown_attributes_and_too_many_values_are_refused() {
        let refused = matching(r#"{"colour": "red"}"#).unwrap_err();
        assert_eq!(refused, "filter names the attribute \"colour\"; allowed: absent, label, new, year");
        assert!(matching(r#"{"year": {"least": 3}}"#).is_err(), "a mistyped range");
        let many: Vec<String> = (0..=FILTER_VALUES_MAX).map(|value| value.to_string()).collect();
        let refused = matching(&format!("{{\"label\": [{}]}}", many.join(","))).unwrap_err();
        assert_eq!(refused, "filter allows 1001 values of label; at most 1000 are allowed");
        let many: Vec<String> = (0..=FILTER_ATTRIBUTES_MAX).map(|at| format!("\"{at}\": 1")).collect();
        let refused = matching(&format!("{{{}}}", many.join(","))).unwrap_err();
        assert_eq!(refused, "filter names 17 attributes; at most 16 are allowed");
        let none = Filter([("a".to_owned(), Condition::Is(Value::Number(Number::Integer(1))))].into());
        let refused = none.compile(&Attributes::default()).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|refused| refused.contains("without a file of attributes")));
    }
}

//! Conditions: an event's type, and at most one test of a field.

use crate::event::{Event, Name};
use crate::fields::Value;
use serde::{Deserialize, Serialize};
use std::fmt;
use treefold_operators::number::Number;

/// Matches events of a type, if a test of one field succeeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Condition {
    /// The events' type.
    pub kind: Name,
    /// The tested field with its test; `None` matches every event of the type.
    pub test: Option<(String, Test)>,
}

/// A test of a field's value. An absent field, or one of another type, fails every test except
/// [`Test::Not`] and [`Test::Present`]`(false)`.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// The value is this.
    Equals(Scalar),
    /// The value is not this.
    Not(Scalar),
    /// The value is one of these.
    OneOf(Vec<Scalar>),
    /// The value is a number below this.
    Below(Number),
    /// The value is a number and at least this.
    AtLeast(Number),
    /// The field is there (`true`), or absent or nil (`false`).
    Present(bool),
}

/// A value in a file of rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A truth value.
    Boolean(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
}

/// The type of a field, as a file of rules declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    /// A truth value.
    Boolean,
    /// An integer.
    Integer,
    /// An integer or a floating-point number.
    Number,
    /// A text.
    Text,
    /// Raw bytes.
    Bytes,
    /// A list or a map.
    Nested,
    /// A value of any type.
    Any,
}

impl FieldType {
    /// True if a field of this type may have `value`. Nil is allowed everywhere, because it removes a field.
    pub fn admits(self, value: Value<'_>) -> bool {
        matches!(
            (self, value),
            (Self::Any, _)
                | (_, Value::Nil)
                | (Self::Boolean, Value::Boolean(_))
                | (Self::Integer | Self::Number, Value::Integer(_))
                | (Self::Number, Value::Float(_))
                | (Self::Text, Value::Text(_))
                | (Self::Bytes, Value::Bytes(_))
                | (Self::Nested, Value::Nested(_))
        )
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Nested => "nested",
            Self::Any => "any",
        })
    }
}

impl Scalar {
    /// This scalar as a field's value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Boolean(truth) => Value::Boolean(*truth),
            Self::Number(Number::Integer(number)) => Value::Integer(*number),
            Self::Number(Number::Float(number)) => Value::Float(*number),
            Self::Text(text) => Value::Text(text),
        }
    }

    fn equals(&self, value: Value<'_>) -> bool {
        match (number(self.value()), number(value)) {
            (Some(one), Some(other)) => one == other,
            _ => self.value() == value,
        }
    }
}

fn number(value: Value<'_>) -> Option<Number> {
    match value {
        Value::Integer(number) => Some(Number::Integer(number)),
        Value::Float(number) => Some(Number::Float(number)),
        _ => None,
    }
}

impl Test {
    fn succeeds(&self, value: Option<Value<'_>>) -> bool {
        let found = value.filter(|value| *value != Value::Nil);
        let is = |scalar: &Scalar| found.is_some_and(|value| scalar.equals(value));
        match self {
            Self::Equals(scalar) => is(scalar),
            Self::Not(scalar) => !is(scalar),
            Self::OneOf(scalars) => scalars.iter().any(is),
            Self::Below(limit) => found.and_then(number).is_some_and(|number| number < *limit),
            Self::AtLeast(limit) => found.and_then(number).is_some_and(|number| number >= *limit),
            Self::Present(wanted) => found.is_some() == *wanted,
        }
    }

    /// The values that the test names.
    pub(super) fn scalars(&self) -> Vec<Scalar> {
        match self {
            Self::Equals(scalar) | Self::Not(scalar) => vec![scalar.clone()],
            Self::OneOf(scalars) => scalars.clone(),
            Self::Below(number) | Self::AtLeast(number) => vec![Scalar::Number(*number)],
            Self::Present(_) => Vec::new(),
        }
    }
}

impl Condition {
    /// Matches every event of a type.
    pub fn of(kind: Name) -> Self {
        Self { kind, test: None }
    }

    /// Matches events of a type whose field passes a test.
    pub fn when(kind: Name, field: impl Into<String>, test: Test) -> Self {
        Self { kind, test: Some((field.into(), test)) }
    }

    /// True if the event matches.
    pub fn matches(&self, event: &Event) -> bool {
        event.kind == self.kind
            && self.test.as_ref().is_none_or(|(field, test)| test.succeeds(event.fields.value(field)))
    }

    /// True if this condition surely matches every event that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        self.kind == other.kind && (self.test.is_none() || self.test == other.test)
    }
}

/// A condition as a file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "type")]
    kind: Name,
    field: Option<String>,
    equals: Option<Scalar>,
    not: Option<Scalar>,
    one_of: Option<Vec<Scalar>>,
    below: Option<Number>,
    at_least: Option<Number>,
    present: Option<bool>,
}

impl From<Condition> for Written {
    fn from(Condition { kind, test }: Condition) -> Self {
        let mut written = Self {
            kind,
            field: None,
            equals: None,
            not: None,
            one_of: None,
            below: None,
            at_least: None,
            present: None,
        };
        if let Some((field, test)) = test {
            written.field = Some(field);
            match test {
                Test::Equals(scalar) => written.equals = Some(scalar),
                Test::Not(scalar) => written.not = Some(scalar),
                Test::OneOf(scalars) => written.one_of = Some(scalars),
                Test::Below(limit) => written.below = Some(limit),
                Test::AtLeast(limit) => written.at_least = Some(limit),
                Test::Present(wanted) => written.present = Some(wanted),
            }
        }
        written
    }
}

impl TryFrom<Written> for Condition {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        let tests = [
            written.equals.map(Test::Equals),
            written.not.map(Test::Not),
            written.one_of.map(Test::OneOf),
            written.below.map(Test::Below),
            written.at_least.map(Test::AtLeast),
            written.present.map(Test::Present),
        ];
        let mut tests = tests.into_iter().flatten();
        let test = match (written.field, tests.next(), tests.next()) {
            (_, Some(_), Some(_)) => {
                return Err("a condition has one of equals, not, one_of, below, at_least, present");
            }
            (Some(field), Some(test), None) => Some((field, test)),
            (None, None, _) => None,
            (Some(_), None, _) => {
                return Err("expected a test of the field: equals, not, one_of, below, at_least or present");
            }
            (None, Some(_), None) => return Err("expected the field to test: field = \"…\""),
        };
        Ok(Self { kind: written.kind, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MirrorLimits;
    use crate::rules::RuleFile;

    /// Numbers of the events that a condition on the field `id` matches.
    fn matched(test: &str, ids: &[&str]) -> Vec<usize> {
        let rule = format!("[[rule]]\nname = 'r'\ndiscard = {{type = 't', field = 'id', {test}}}");
        let file = RuleFile::read(&rule).unwrap();
        let written = file.to_toml().unwrap();
        assert_eq!(RuleFile::read(&written).unwrap().to_toml().unwrap(), written, "{test}");
        let condition: Condition = toml::from_str(&format!("type = 't'\nfield = 'id'\n{test}")).unwrap();
        let matches = |id: &str| {
            let text = format!(r#"{{"stream":"s","number":1,"key":"k","type":"t","fields":{{"id":{id}}}}}"#);
            condition.matches(&Event::from_json(&text, None, &MirrorLimits::DEFAULT).unwrap())
        };
        (0..ids.len()).filter(|index| matches(ids[*index])).collect()
    }

    #[test]
    fn integers_of_64_bits_compare_exactly() {
        let ids = ["9007199254740992", "9007199254740993", "9007199254740994", "18446744073709551615", "1.5"];
        for (test, expected) in [
            ("equals = 9007199254740993", vec![1]),
            ("equals = 9007199254740992.0", vec![0]),
            ("not = 9007199254740993", vec![0, 2, 3, 4]),
            ("one_of = [9007199254740993, 1.5]", vec![1, 4]),
            ("below = 9007199254740993", vec![0, 4]),
            ("below = 9007199254740994.0", vec![0, 1, 4]),
            ("at_least = 9007199254740993", vec![1, 2, 3]),
            ("at_least = 9223372036854775807", vec![3]),
            ("below = nan", vec![]),
        ] {
            assert_eq!(matched(test, &ids), expected, "{test}");
        }
    }

    #[test]
    fn integers_beyond_64_bits_are_refused() {
        for test in ["equals", "below", "at_least"] {
            let rule = format!("discard = {{type = 't', field = 'id', {test} = 12345678901234567890123}}");
            let problems = RuleFile::read(&format!("[[rule]]\nname = 'r'\n{rule}")).unwrap_err();
            assert!(problems[0].message.contains("12345678901234567890123"), "{problems:?}");
        }
    }

    #[test]
    fn times_in_nanoseconds_are_told_apart() {
        let ids = ["1764324000123456788", "1764324000123456789", "-1764324000123456789"];
        assert_eq!(matched("equals = 1764324000123456789", &ids), [1]);
        assert_eq!(matched("at_least = 1764324000123456789", &ids), [1]);
        assert_eq!(matched("below = -1764324000123456788", &ids), [2]);
    }
}

//! The parameters of a call, as its command gets them.
//!
//! Parameters are one MessagePack value, which is the caller's JSON. A command with the placeholder `{query}`
//! gets one text of it as an argument. Any other command gets the whole value on its standard input.

use crate::error::RunError;
use bytes::Bytes;
use serde_json::Value;
use treefold_operators::{Body, BodyError, Codec};

/// Longest query in bytes. Linux takes arguments of up to 128 KiB.
pub const QUERY_BYTES_MAX: usize = 64 << 10;

/// Most bytes of parameters that a command gets on its standard input.
pub const STDIN_BYTES_MAX: usize = 1 << 20;

/// The field of a map that is the query.
const QUERY_FIELD: &str = "query";

/// Parameters as they arrived: one MessagePack value, or no bytes.
#[derive(Clone, Debug, Default)]
pub struct Params(Bytes);

impl Body for Params {
    const CODEC: Codec = Codec::MessagePack;

    fn encode(&self) -> Result<Bytes, BodyError> {
        Ok(self.0.clone())
    }

    fn decode(bytes: &Bytes) -> Result<Self, BodyError> {
        Ok(Self(bytes.clone()))
    }
}

impl Params {
    /// The parameters in these bytes.
    pub fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    fn value(&self) -> Result<Value, RunError> {
        // The value is at least half as long as its MessagePack, so longer bytes need not be read.
        if self.0.len() > 2 * STDIN_BYTES_MAX {
            return Err(RunError::LongParams(self.0.len()));
        }
        Value::decode(&self.0).map_err(|error| RunError::Params(error.to_string()))
    }

    /// Returns the text for `{query}`: a text, a number or a boolean, or the field `query` of a map.
    ///
    /// # Errors
    /// If there is none, or if it cannot be an argument.
    pub fn query(&self) -> Result<String, RunError> {
        let text = match self.value()? {
            Value::Object(mut fields) => fields.remove(QUERY_FIELD).and_then(plain),
            value => plain(value),
        };
        let text = text.ok_or(RunError::NoQuery)?;
        if text.len() > QUERY_BYTES_MAX {
            return Err(RunError::LongQuery(text.len()));
        }
        if text.contains('\0') {
            return Err(RunError::ZeroByte);
        }
        Ok(text)
    }

    /// Returns the bytes for standard input: a text as it is, another value as JSON, each with a line feed at its
    /// end. No parameters give no bytes.
    ///
    /// # Errors
    /// If they are not such a value, or too long.
    pub fn stdin(&self) -> Result<Bytes, RunError> {
        let mut text = match self.value()? {
            Value::Null => return Ok(Bytes::new()),
            Value::String(text) => text,
            value => value.to_string(),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if text.len() > STDIN_BYTES_MAX {
            return Err(RunError::LongParams(text.len()));
        }
        Ok(text.into())
    }
}

/// Returns a value as an argument, if it is not a list, a map or nothing.
fn plain(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "tests read better so")]
    fn params(value: Value) -> Params {
        Params(value.encode().unwrap())
    }

    #[test]
    fn query_is_a_text_or_a_field() {
        assert_eq!(params(json!("two words")).query().unwrap(), "two words");
        assert_eq!(params(json!({"query": "$(id)", "k": 3})).query().unwrap(), "$(id)");
        assert_eq!(params(json!(7)).query().unwrap(), "7");
        for none in [json!(null), json!([]), json!({}), json!({"query": ["a"]})] {
            assert!(matches!(params(none.clone()).query(), Err(RunError::NoQuery)), "{none}");
        }
        assert!(matches!(Params::default().query(), Err(RunError::NoQuery)));
    }

    #[test]
    fn parameters_are_bounded() {
        let long = params(json!("x".repeat(QUERY_BYTES_MAX + 1)));
        assert!(matches!(long.query(), Err(RunError::LongQuery(_))));
        let longer = params(json!("x".repeat(STDIN_BYTES_MAX)));
        assert!(matches!(longer.stdin(), Err(RunError::LongParams(_))));
        assert!(matches!(params(json!("a\0b")).query(), Err(RunError::ZeroByte)));
        assert!(matches!(Params(Bytes::from_static(b"\xc1")).stdin(), Err(RunError::Params(_))));
    }

    #[test]
    fn standard_input_is_text_or_json() {
        assert_eq!(params(json!("a\nb")).stdin().unwrap(), "a\nb\n");
        assert_eq!(params(json!("a\n")).stdin().unwrap(), "a\n");
        assert_eq!(params(json!({"k": [1, 2]})).stdin().unwrap(), "{\"k\":[1,2]}\n");
        assert_eq!(Params::default().stdin().unwrap(), "");
    }
}

//! The packets of `time-aligned`: samples from endpoints, aligned intervals from nodes.
//!
//! Metrics are one byte string of little-endian `f64`s, so that reading a sample of 32 metrics takes one
//! copy. For samples written by hand, an array of numbers or a single number is accepted too, and so is a
//! typed packet.

use super::Params;
use crate::error::{OperatorError, Result};
use crate::filter::{FilterError, Piece};
use crate::fold::samples::typed;
use crate::packet::Value;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An endpoint's packet: amounts, and the interval over which they were gathered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Start of the interval, in ns since the Unix epoch.
    pub start_ns: u64,
    /// End of the interval (exclusive).
    pub end_ns: u64,
    /// The amounts, one per metric.
    pub values: Metrics,
}

/// A node's packet: one output interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aligned {
    /// Start of the interval, in ns since the Unix epoch: a multiple of the stream's `interval_ns`.
    pub start_ns: u64,
    /// End of the interval (exclusive).
    pub end_ns: u64,
    /// Number of endpoints that contributed.
    pub endpoints: u32,
    /// The reduced amounts, one per metric.
    pub values: Metrics,
}

/// One figure per metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(pub Vec<f64>);

impl Sample {
    /// Reads the sample from an endpoint's packet: MessagePack, or a typed packet `u64 u64 f64s`.
    pub(super) fn read(piece: &Piece) -> Result<Self> {
        let Some(packet) = typed(&piece.payload) else { return piece.read() };
        let packet = packet.map_err(FilterError::packet(piece.source))?;
        let mut fields = packet.values();
        match (fields.next(), fields.next(), fields.next(), fields.next()) {
            (Some(Value::U64(start_ns)), Some(Value::U64(end_ns)), Some(Value::F64s(values)), None) => {
                Ok(Self { start_ns, end_ns, values: values.to_vec().into() })
            }
            _ => {
                let wanted = "`u64 u64 f64s` (start, end, amounts)".into();
                Err(FilterError::Format { from: piece.source, given: packet.format(), wanted }.into())
            }
        }
    }

    /// Checks that this is a valid sample of this stream.
    pub(super) fn check(&self, params: &Params) -> Result<()> {
        let Self { start_ns, end_ns, values } = self;
        if start_ns >= end_ns {
            let said = format!("a sample's `end_ns` {end_ns} is not after its `start_ns` {start_ns}");
            return Err(OperatorError::new(said));
        }
        let intervals = (end_ns - 1) / params.interval_ns - start_ns / params.interval_ns + 1;
        if intervals > u64::from(params.intervals_max) {
            let limit = params.intervals_max;
            let said = format!(
                "a sample overlaps {intervals} intervals, above the limit `intervals_max` of {limit}"
            );
            return Err(OperatorError::new(said));
        }
        values.check(params)?;
        match values.0.iter().position(|value| !value.is_finite()) {
            Some(metric) => {
                Err(OperatorError::new(format!("metric {metric} of a sample is {}", values.0[metric])))
            }
            None => Ok(()),
        }
    }
}

impl Aligned {
    /// Checks that this is a valid interval of this stream.
    pub(super) fn check(&self, params: &Params) -> Result<()> {
        let Self { start_ns, end_ns, endpoints, .. } = self;
        let aligned = start_ns.is_multiple_of(params.interval_ns)
            && *end_ns == start_ns.saturating_add(params.interval_ns);
        if !aligned || *endpoints == 0 {
            let said =
                format!("{start_ns}..{end_ns} of {endpoints} endpoints is not an interval of this stream");
            return Err(OperatorError::new(said));
        }
        self.values.check(params)
    }
}

impl Metrics {
    fn check(&self, params: &Params) -> Result<()> {
        if self.0.len() == params.metrics as usize {
            return Ok(());
        }
        let (came, asked) = (self.0.len(), params.metrics);
        Err(OperatorError::new(format!(
            "`values` has {came} metrics, but this stream's parameter `metrics` is {asked}"
        )))
    }
}

impl From<Vec<f64>> for Metrics {
    fn from(values: Vec<f64>) -> Self {
        Self(values)
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(size_of_val(self.0.as_slice()));
        for value in &self.0 {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        writer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(MetricsVisitor)
    }
}

struct MetricsVisitor;

impl<'de> Visitor<'de> for MetricsVisitor {
    type Value = Metrics;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("64-bit floating-point numbers, as little-endian bytes, an array, or a single number")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Metrics, E> {
        let (values, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err(E::invalid_length(bytes.len(), &"8 bytes per metric"));
        }
        Ok(Metrics(values.iter().map(|value| f64::from_le_bytes(*value)).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Metrics, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element()? {
            if values.len() >= super::METRICS_MAX as usize {
                return Err(A::Error::invalid_length(values.len() + 1, &"at most METRICS_MAX metrics"));
            }
            values.push(value);
        }
        Ok(Metrics(values))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Metrics, E> {
        Ok(Metrics(vec![value]))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Metrics, E> {
        Ok(Metrics(vec![value as f64]))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Metrics, E> {
        Ok(Metrics(vec![value as f64]))
    }
}

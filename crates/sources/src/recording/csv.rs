//! Recordings as CSV: a header, then an event a record.
//!
//! The columns `stream`, `number`, `key`, `type` and `at_ms` are parts of the event; every other column is a field,
//! and an empty cell is no field.

use super::cells::{Cell, read_cell};
use super::{Problem, RecordingOptions};
use bytestring::ByteString;
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use treefold_mirror::event::EventError;
use treefold_mirror::rules::FieldType;
use treefold_mirror::{Event, Fields, Name};
use treefold_operators::text::{self, csv::OpenQuote, csv::repeated};

/// Columns that are parts of an event.
const PARTS: [&str; 5] = ["stream", "number", "key", "type", "at_ms"];

pub(super) struct Csv {
    reader: Reader<Bounded>,
    record: ByteRecord,
    /// Bytes that were read.
    read: Arc<AtomicU64>,
    /// Bytes that may be read before the present record is too long.
    bound: Arc<AtomicU64>,
    /// True if the last byte that was read ends a line.
    is_line_end: Arc<AtomicBool>,
    columns: Option<Columns>,
    options: RecordingOptions,
    names: BTreeMap<Vec<u8>, Name>,
    line: u64,
}

/// Places of the columns.
struct Columns {
    stream: Option<usize>,
    number: usize,
    key: usize,
    kind: usize,
    at_ms: Option<usize>,
    fields: Vec<(usize, String)>,
}

/// A reader that ends with an error if one record takes more bytes than allowed: a quote without its end would
/// otherwise hold the whole file.
struct Bounded {
    reader: text::Csv<Box<dyn Read + Send>>,
    read: Arc<AtomicU64>,
    bound: Arc<AtomicU64>,
    is_line_end: Arc<AtomicBool>,
    limit: usize,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read.load(Ordering::Relaxed) > self.bound.load(Ordering::Relaxed) {
            return Err(io::Error::other(format!("the record has more than {} bytes", self.limit)));
        }
        let bytes = self.reader.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(last) = buffer[..bytes].last() {
            self.is_line_end.store(matches!(last, b'\n' | b'\r'), Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

impl Csv {
    pub(super) fn new(reader: Box<dyn Read + Send>, options: RecordingOptions) -> Self {
        let (read, bound) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (limit, is_line_end) = (options.line_bytes_max, Arc::new(AtomicBool::new(true)));
        let reader = Bounded {
            reader: text::Csv::new(reader),
            read: Arc::clone(&read),
            bound: Arc::clone(&bound),
            is_line_end: Arc::clone(&is_line_end),
            limit,
        };
        let reader = ReaderBuilder::new().has_headers(false).buffer_capacity(64 << 10).from_reader(reader);
        let (record, names) = (ByteRecord::new(), BTreeMap::new());
        Self { reader, record, read, bound, is_line_end, columns: None, options, names, line: 1 }
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn has_buffered(&self) -> bool {
        self.reader.position().byte() < self.read.load(Ordering::Relaxed)
    }

    pub(super) fn next_event(&mut self) -> Result<Option<(Event, Option<f64>)>, Problem> {
        let columns = match self.columns.take() {
            Some(columns) => columns,
            None if self.next_record()? => self.header()?,
            None => return Err(Problem::new("expected a header with the columns number, key and type")),
        };
        let is_read = self.next_record()?;
        let columns = self.columns.insert(columns);
        if !is_read {
            return Ok(None);
        }
        let cells = Cells { record: &self.record, columns };
        let names = &mut self.names;
        let stream = match columns.stream.map(|at| cells.text(at, "stream")).transpose()? {
            Some(text) if !text.is_empty() => named(names, text, "stream")?,
            _ => self.options.stream.clone().ok_or(EventError::Missing { field: "stream" })?,
        };
        let number = cells.parsed(columns.number, "number", "a number from 1")?;
        let number = number.ok_or(EventError::Missing { field: "number" })?;
        let key = ByteString::from(cells.text(columns.key, "key")?);
        let kind = match cells.text(columns.kind, "type")? {
            "" => return Err(EventError::Missing { field: "type" }.into()),
            text => named(names, text, "type")?,
        };
        let at_ms = match columns.at_ms {
            Some(at) => cells.parsed(at, "at_ms", "a number of milliseconds")?,
            None => None,
        };
        let declared = self.options.types.get(kind.as_str());
        let fields = cells.fields(declared, self.options.limits.fields_max)?;
        let event = Event { stream, number, key, kind, fields, body: bytes::Bytes::new() };
        event.check(&self.options.limits)?;
        Ok(Some((event, at_ms)))
    }

    fn next_record(&mut self) -> Result<bool, Problem> {
        let begins_at = self.reader.position().byte();
        self.bound.store(begins_at + self.options.line_bytes_max as u64, Ordering::Relaxed);
        self.line = self.reader.position().line();
        let read = self.reader.read_byte_record(&mut self.record);
        if let Err(error) = &read
            && let csv::ErrorKind::Io(error) = error.kind()
            && let Some(open) = OpenQuote::of(error)
        {
            self.line = open.line;
            return Err(Problem::new(open));
        }
        let is_read = read.map_err(|error| match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                Problem::new(format_args!("{len} cells; the header has {expected_len}"))
            }
            csv::ErrorKind::Io(error) => Problem::new(format_args!("can't read it: {error}")),
            _ => Problem::new(error),
        });
        if let Some(position) = self.record.position() {
            self.line = position.line();
        }
        // The reader gives a record without a line end only at the file's end. Its last cell may be a part of one.
        let is_last = self.reader.position().byte() == self.read.load(Ordering::Relaxed);
        if matches!(is_read, Ok(true)) && is_last && !self.is_line_end.load(Ordering::Relaxed) {
            return Err(Problem::new("the record has no line end, so it may be cut; add one if it is whole"));
        }
        is_read
    }

    /// Reads the header from the present record.
    fn header(&self) -> Result<Columns, Problem> {
        let mut names = Vec::<&str>::new();
        for (at, cell) in self.record.iter().enumerate() {
            let wrong = |problem| Problem::new(format_args!("column {} of the header: {problem}", at + 1));
            let name = std::str::from_utf8(cell).map_err(|_| wrong("not UTF-8 text"))?.trim();
            if name.is_empty() {
                return Err(wrong("it has no name"));
            }
            names.push(name);
        }
        if let Some((at, name)) = repeated(names.iter().copied()) {
            return Err(Problem::new(format_args!("column {} of the header: `{name}` occurs twice", at + 1)));
        }
        let place = |name: &str| names.iter().position(|known| *known == name);
        let needed =
            |name| place(name).ok_or_else(|| Problem::new(format_args!("the header has no column `{name}`")));
        let fields = names.iter().enumerate().filter(|(_, name)| !PARTS.contains(name));
        Ok(Columns {
            stream: place("stream"),
            number: needed("number")?,
            key: needed("key")?,
            kind: needed("type")?,
            at_ms: place("at_ms"),
            fields: fields.map(|(at, name)| (at, (*name).to_owned())).collect(),
        })
    }
}

/// A name, shared with earlier events. A file with many names keeps only the first ones.
fn named(names: &mut BTreeMap<Vec<u8>, Name>, text: &str, field: &'static str) -> Result<Name, Problem> {
    const NAMES_KEPT_MAX: usize = 256;
    if let Some(name) = names.get(text.as_bytes()) {
        return Ok(name.clone());
    }
    let name = Name::new(text).map_err(|problem| EventError::Name { field, problem })?;
    if names.len() < NAMES_KEPT_MAX {
        names.insert(text.as_bytes().to_vec(), name.clone());
    }
    Ok(name)
}

/// The cells of a record.
struct Cells<'a> {
    record: &'a ByteRecord,
    columns: &'a Columns,
}

impl<'a> Cells<'a> {
    fn text(&self, at: usize, column: &str) -> Result<&'a str, Problem> {
        std::str::from_utf8(self.record.get(at).unwrap_or_default())
            .map_err(|_| in_column(column, "not UTF-8 text"))
    }

    /// A number; `None` for an empty cell.
    fn parsed<T: std::str::FromStr>(
        &self,
        at: usize,
        column: &str,
        expected: &str,
    ) -> Result<Option<T>, Problem> {
        let text = self.text(at, column)?.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |_| in_column(column, format_args!("found `{text}`; expected {expected}"));
        text.parse().map(Some).map_err(wrong)
    }

    fn fields(
        &self,
        declared: Option<&BTreeMap<String, FieldType>>,
        fields_max: usize,
    ) -> Result<Fields, Problem> {
        let mut values: Vec<(&str, Cell<'_>)> = Vec::with_capacity(self.columns.fields.len());
        for (at, name) in &self.columns.fields {
            let text = self.text(*at, name)?;
            if text.is_empty() {
                continue;
            }
            let kind = declared.and_then(|declared| declared.get(name)).copied().unwrap_or(FieldType::Any);
            let cell = read_cell(text, kind);
            values.push((name, cell.map_err(|problem| in_column(name, problem))?));
        }
        if values.len() > fields_max {
            return Err(Problem::new(format_args!("{} fields; allowed: {fields_max}", values.len())));
        }
        Ok(values.iter().map(|(name, cell)| (*name, cell.value())).collect())
    }
}

fn in_column(column: &str, problem: impl std::fmt::Display) -> Problem {
    Problem::new(format_args!("column `{column}`: {problem}"))
}

//! Traces in a file: a line of OTLP JSON for each batch, as the file exporter of OpenTelemetry's collector writes them, and its
//! file receiver reads them.

use crate::lines::{FILE_BYTES_MAX, LinesFile};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use std::io;
use std::path::{Path, PathBuf};

/// A file of traces.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    lines: LinesFile,
}

impl TraceFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), lines: LinesFile::open(path, FILE_BYTES_MAX)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn append(&mut self, request: &ExportTraceServiceRequest) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.lines.append(&line)
    }
}

//! `treefold index`: makes the index of a folder ahead of its nodes, and uploads it to an object store.

mod upload;

use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json, short};
use crate::serve::Corpus;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use treefold_search::Bar;
use treefold_search::limits::PARTITIONS_MAX;

/// Index a folder for `--serve search=…`, and upload the index to an object store
///
/// A node that serves a folder makes the index itself when it starts. With this command, the index is ready before; with --to,
/// it is in a bucket, from which each node copies the partitions that it serves. Files that the bucket has already are not sent
/// again. Nodes that run keep the index that they have; those that start or load a partition afterwards take the new one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IndexArgs {
    /// Folder to index
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Number of partitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PARTITIONS_MAX)))]
    partitions: u32,

    /// Directory of the index (default: a directory in the user's data home)
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Most files to index: the first in the order of their paths
    #[arg(long, value_name = "N")]
    files: Option<u64>,

    /// Folder of a bucket to upload the index to, s3://BUCKET/FOLDER; the variables AWS_… have keys, region and endpoint
    #[arg(long, value_name = "URL", value_parser = address)]
    to: Option<String>,
}

const EXAMPLES: &str = "\
Exit codes: 0 if every file was read, 1 if one can't be read (the others are in the index). Binary files and files above a limit
are left out on purpose.

Examples:
  treefold index docs --partitions 64
  treefold index docs --partitions 64 --to s3://corpus/docs
  treefold node --serve 'search=s3://corpus/docs:partitions=auto/64:replicas=2'";

fn address(text: &str) -> Result<String, String> {
    treefold_objects::Folder::check(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// The result as JSON.
#[derive(Serialize)]
struct Indexed {
    index: PathBuf,
    partitions: u32,
    documents: u64,
    bytes: u64,
    skipped: u64,
    reused: bool,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    uploaded: Option<Sent>,
}

#[derive(Serialize)]
struct Sent {
    url: String,
    files: u64,
    bytes: u64,
    kept: u64,
    seconds: f64,
}

impl IndexArgs {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let corpus = Corpus { folder: self.folder.clone(), data: self.data.clone(), files_max: self.files };
        let report = corpus.index(self.partitions, &Bar::new()).map_err(Failure::failed)?;
        let uploaded = self.upload(&report)?;
        let indexed = Indexed {
            index: report.directory.clone(),
            partitions: report.partitions,
            documents: report.documents,
            bytes: report.bytes,
            skipped: report.skipped.total(),
            reused: report.reused,
            seconds: report.elapsed.as_secs_f64(),
            uploaded,
        };
        match format {
            Format::Json => print_json(&indexed),
            Format::Text => indexed.show(),
        }
        match report.skipped.unreadable {
            0 => Ok(Verdict::Full),
            1 => Err(Failure::Told("1 file can't be read".to_owned())),
            count => Err(Failure::Told(format!("{count} files can't be read"))),
        }
    }

    fn upload(&self, report: &treefold_search::Report) -> Result<Option<Sent>, Failure> {
        self.to.as_deref().map(|url| upload::upload(url, report)).transpose()
    }
}

impl Indexed {
    fn show(&self) {
        let how = if self.reused { "is up to date" } else { "was made" };
        print(format_args!(
            "the index {} {how}: {} documents in {} partitions, {} files skipped",
            self.index.display(),
            self.documents,
            self.partitions,
            self.skipped
        ));
        if let Some(Sent { url, files, bytes, kept, seconds }) = &self.uploaded {
            let took = short(Duration::from_secs_f64(*seconds));
            print(format_args!("{url}: {files} files with {bytes} bytes sent in {took}, {kept} were there"));
        }
    }
}

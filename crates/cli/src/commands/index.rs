//! `treefold index`: makes the index of a folder ahead of its nodes, and uploads it to an object store.

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
    #[cfg(feature = "objects")]
    #[arg(long, value_name = "URL", value_parser = address)]
    to: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  treefold index docs --partitions 64
  treefold index docs --partitions 64 --to s3://corpus/docs
  treefold node --serve 'search=s3://corpus/docs:partitions=auto/64:replicas=2'";

#[cfg(feature = "objects")]
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
        Ok(Verdict::Full)
    }

    #[cfg(not(feature = "objects"))]
    fn upload(&self, _: &treefold_search::Report) -> Result<Option<Sent>, Failure> {
        Ok(None)
    }

    #[cfg(feature = "objects")]
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

#[cfg(feature = "objects")]
mod upload {
    //! An index's way into a bucket: its generation first, its manifest last, then older generations are removed.
    //!
    //! The generation before stays, because nodes may be copying it.

    use super::Sent;
    use crate::exit::Failure;
    use indicatif::{ProgressBar, ProgressStyle};
    use std::time::Instant;
    use treefold_objects::{Folder, ObjectsError, Uploaded};
    use treefold_search::{Published, Report};

    pub(super) fn upload(url: &str, report: &Report) -> Result<Sent, Failure> {
        let failed = |error: ObjectsError| match error.is_unreachable() {
            true => Failure::unreachable(error.to_string()),
            false => Failure::failed(error.to_string()),
        };
        let started_at = Instant::now();
        let folder = Folder::at(url).map_err(failed)?;
        let path = report.directory.join(Published::MANIFEST);
        let manifest =
            std::fs::read(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        let index = Published::read(&manifest).ok_or_else(|| {
            Failure::failed(format!(
                "{} was replaced while it was uploaded; run the command again",
                path.display()
            ))
        })?;
        let before = before(&folder).map_err(failed)?;
        let sent = partitions(&folder, &index, report).map_err(failed)?;
        folder.write(Published::MANIFEST, manifest).map_err(failed)?;
        remove_old(&folder, &index, before.as_ref()).map_err(failed)?;
        Ok(Sent {
            url: url.to_owned(),
            files: sent.files,
            bytes: sent.bytes,
            kept: sent.kept,
            seconds: started_at.elapsed().as_secs_f64(),
        })
    }

    /// The index that the bucket has now.
    fn before(folder: &Folder) -> Result<Option<Published>, ObjectsError> {
        match folder.read(Published::MANIFEST) {
            Ok((_, text)) => Ok(Published::read(&text)),
            Err(ObjectsError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn partitions(folder: &Folder, index: &Published, report: &Report) -> Result<Uploaded, ObjectsError> {
        let style = ProgressStyle::with_template("uploading {pos}/{len} partitions {wide_bar} {eta}");
        let bar = ProgressBar::new(u64::from(index.partitions()))
            .with_style(style.expect("invariant: the template is well-formed"));
        let mut all = Uploaded::default();
        for partition in 0..index.partitions() {
            let below = index.partition(partition);
            let sent = folder.upload(&report.directory.join(&below), &below)?;
            all.files += sent.files;
            all.bytes += sent.bytes;
            all.kept += sent.kept;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(all)
    }

    /// Removes the generations that are neither the new one nor the one before.
    fn remove_old(
        folder: &Folder,
        index: &Published,
        before: Option<&Published>,
    ) -> Result<(), ObjectsError> {
        let kept = [Some(index.generation()), before.map(Published::generation)];
        let mut old = folder.folders()?.into_iter().filter(|name| {
            name.starts_with(Published::GENERATION) && !kept.iter().flatten().any(|kept| kept == name)
        });
        old.try_for_each(|name| folder.remove(&name))
    }
}

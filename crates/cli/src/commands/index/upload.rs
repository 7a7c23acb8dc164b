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
fn remove_old(folder: &Folder, index: &Published, before: Option<&Published>) -> Result<(), ObjectsError> {
    let kept = [Some(index.generation()), before.map(Published::generation)];
    let mut old = folder.folders()?.into_iter().filter(|name| {
        name.starts_with(Published::GENERATION) && !kept.iter().flatten().any(|kept| kept == name)
    });
    old.try_for_each(|name| folder.remove(&name))
}

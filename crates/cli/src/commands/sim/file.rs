//! Points and pictures in files.
//!
//! The points of an experiment are in `NAME.json`. Points of real runs are in `NAME.real.json` beside it and
//! are drawn as marks into the same pictures.

use super::named::Named;
use crate::exit::Failure;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use treefold_sim::evaluation::record::from_json;
use treefold_sim::experiment::{Chart, Point};
use treefold_sim::plot::draw;

/// Simulated points and the points of real runs.
pub(crate) struct Recorded {
    pub(crate) points: Vec<Point>,
    pub(crate) real: Vec<Point>,
}

/// Returns the file of an experiment's points.
pub(crate) fn points_of(directory: &Path, named: Named) -> PathBuf {
    directory.join(format!("{}.json", named.0.name))
}

/// Reads the points of a file.
pub(crate) fn read_points(path: &Path) -> Result<Vec<Point>, Failure> {
    let text = read(path)?;
    from_json(&text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// Reads the points of real runs that belong to an experiment, if there are any.
pub(crate) fn read_real(directory: &Path, named: Named) -> Result<Vec<Point>, Failure> {
    let path = directory.join(format!("{}.real.json", named.0.name));
    if path.exists() { read_points(&path) } else { Ok(Vec::new()) }
}

/// Returns the file of a chart's picture.
fn picture_of(directory: &Path, chart: &Chart) -> PathBuf {
    directory.join(format!("{}.svg", chart.file))
}

/// Checks that an experiment's pictures can be written.
pub(crate) fn try_to_write_charts(directory: &Path, named: Named) -> Result<(), Failure> {
    named.0.charts.iter().try_for_each(|chart| try_to_write(&picture_of(directory, chart)))
}

/// Draws an experiment's charts into a directory, and returns the written files.
///
/// A chart without any points is skipped with a message on standard error, because a quick run may lack its
/// points.
pub(crate) fn write_charts(
    directory: &Path,
    named: Named,
    recorded: &Recorded,
) -> Result<Vec<PathBuf>, Failure> {
    let mut written = Vec::new();
    for chart in named.0.charts {
        match draw(chart, &recorded.points, &recorded.real) {
            Ok(svg) => {
                let path = picture_of(directory, chart);
                write(&path, &svg)?;
                written.push(path);
            }
            Err(nothing) => crate::tell!("treefold: chart not drawn: {nothing}"),
        }
    }
    Ok(written)
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let what_to_do = match error.kind() {
            ErrorKind::NotFound => "; check the path and the current directory",
            _ => "",
        };
        Failure::failed(format!("can't read {}: {error}{what_to_do}", path.display()))
    })
}

/// Checks that a file can be written, before hours are spent on its content.
///
/// Only its directory is left behind.
pub(crate) fn try_to_write(path: &Path) -> Result<(), Failure> {
    let attempt = || match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(there) if there.is_file() => std::fs::OpenOptions::new().append(true).open(path).map(drop),
        // A pipe can be opened only once.
        Ok(_) => Ok(()),
        Err(_) => {
            make_directory(path)?;
            std::fs::File::create_new(path)?;
            std::fs::remove_file(path)
        }
    };
    attempt().map_err(|error| cannot_write(path, &error))
}

/// Writes a whole file, and creates its directory if necessary.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    make_directory(path).and_then(|()| std::fs::write(path, text)).map_err(|error| cannot_write(path, &error))
}

fn make_directory(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.map_or(Ok(()), std::fs::create_dir_all)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("can't write {}: {error}", path.display()))
}

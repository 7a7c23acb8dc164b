//! Points and pictures on file. An experiment's points are `NAME.json`; points of real runs beside them, drawn as
//! marks into the same pictures, are `NAME.real.json`.

use super::named::Named;
use crate::exit::Failure;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use treefold_sim::evaluation::record::from_json;
use treefold_sim::experiment::{Chart, Point};
use treefold_sim::plot::draw;

/// Points and their real counterparts.
pub(crate) struct Recorded {
    pub(crate) points: Vec<Point>,
    pub(crate) real: Vec<Point>,
}

/// Where an experiment's points are kept.
pub(crate) fn points_of(directory: &Path, named: Named) -> PathBuf {
    directory.join(format!("{}.json", named.0.name))
}

/// Reads the points of a file.
pub(crate) fn read_points(path: &Path) -> Result<Vec<Point>, Failure> {
    let text = read(path)?;
    from_json(&text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// The points of real runs that are kept beside an experiment's points, if any are.
pub(crate) fn read_real(directory: &Path, named: Named) -> Result<Vec<Point>, Failure> {
    let path = directory.join(format!("{}.real.json", named.0.name));
    if path.exists() { read_points(&path) } else { Ok(Vec::new()) }
}

/// Where a chart's picture goes.
fn picture_of(directory: &Path, chart: &Chart) -> PathBuf {
    directory.join(format!("{}.svg", chart.file))
}

/// Makes sure that an experiment's pictures can be written.
pub(crate) fn try_to_write_charts(directory: &Path, named: Named) -> Result<(), Failure> {
    named.0.charts.iter().try_for_each(|chart| try_to_write(&picture_of(directory, chart)))
}

/// Draws an experiment's charts into a directory; the files written. A chart that would show nothing is left out
/// with a word on standard error: a quick run may lack what it shows.
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
            Err(nothing) => eprintln!("treefold: not drawn: {nothing}"),
        }
    }
    Ok(written)
}

/// Reads a file as a whole.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let what_to_do = match error.kind() {
            ErrorKind::NotFound => "; is it the right directory?",
            _ => "",
        };
        Failure::failed(format!("can't read {}: {error}{what_to_do}", path.display()))
    })
}

/// Makes sure that a file can be written, before hours are spent on what it is to hold. Nothing is left behind but its
/// directory.
pub(crate) fn try_to_write(path: &Path) -> Result<(), Failure> {
    let attempt = || match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(there) if there.is_file() => std::fs::OpenOptions::new().append(true).open(path).map(drop),
        // A pipe is opened once.
        Ok(_) => Ok(()),
        Err(_) => {
            make_directory(path)?;
            std::fs::File::create_new(path)?;
            std::fs::remove_file(path)
        }
    };
    attempt().map_err(|error| cannot_write(path, &error))
}

/// Writes a file as a whole; its directory is made when it is not there.
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

//! `treefold keys show`: shows the content of files of keys. Private keys are not shown.

use super::Folder;
use super::files::{authority, process_files, read};
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use treefold_certificates::{Certificate, Refusal};

/// Show who the files of keys are for, what their processes may do, and until when
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Files to show [default: the authority and all processes in the folder]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    folder: Folder,
}

const EXAMPLES: &str = "\
Examples:
  treefold keys show
  treefold keys show /etc/treefold/n1.pem -o json";

#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<ShownAuthority>,
    files: Vec<ShownFile>,
}

#[derive(Serialize)]
struct ShownAuthority {
    cluster: String,
    until: String,
    rotating: bool,
}

#[derive(Serialize)]
struct ShownFile {
    file: String,
    cluster: String,
    role: &'static str,
    name: String,
    may: Vec<&'static str>,
    services: String,
    at: Vec<String>,
    from: String,
    until: String,
    days_left: i64,
    serial: String,
    authorities: usize,
}

impl Show {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let shows_all = self.files.is_empty();
        let authority = match shows_all {
            true => Some(authority(&self.folder.dir)?).map(|authority| ShownAuthority {
                cluster: authority.cluster().to_owned(),
                until: date(authority.not_after()),
                rotating: authority.is_rotating(),
            }),
            false => None,
        };
        let files = if shows_all { process_files(&self.folder.dir)? } else { self.files };
        let files: Result<_, _> = files.iter().map(|path| shown(path)).collect();
        let shown = Shown { authority, files: files? };
        match format {
            Format::Text => shown.print(),
            Format::Json => print_json(&shown),
        }
        Ok(Verdict::Full)
    }
}

fn shown(path: &Path) -> Result<ShownFile, Failure> {
    let file = read(path)?;
    let refused = |refusal: Refusal| Failure::failed(format!("{}: {refusal}", path.display()));
    let own = file.chain.first().ok_or_else(|| refused(Refusal::Absent))?;
    let Certificate { grant, serial, not_before, not_after } = Certificate::read(own).map_err(refused)?;
    let days_left = (OffsetDateTime::from(not_after) - OffsetDateTime::now_utc()).whole_days();
    Ok(ShownFile {
        file: path.display().to_string(),
        role: grant.role.name(),
        may: grant.may.iter().map(treefold::Right::name).collect(),
        services: grant.services.to_string(),
        at: grant.at.iter().map(ToString::to_string).collect(),
        cluster: grant.cluster,
        name: grant.name,
        from: date(not_before),
        until: date(not_after),
        days_left,
        serial,
        authorities: file.authorities.len(),
    })
}

fn date(time: SystemTime) -> String {
    // A time that has no such form is not shown.
    OffsetDateTime::from(time).format(&Rfc3339).unwrap_or_default()
}

impl Shown {
    fn print(&self) {
        if let Some(ShownAuthority { cluster, until, rotating }) = &self.authority {
            let state =
                if *rotating { "; a rotation has begun, and its older authority is trusted too" } else { "" };
            print(format_args!("authority of the cluster {cluster:?}, until {until}{state}"));
        }
        let columns = ["file", "role", "name", "may", "services", "at"].map(|heading| (heading, Align::Left));
        let mut table =
            Table::new(&columns).with_column("days left", Align::Right).with_column("until", Align::Left);
        for file in &self.files {
            let (may, at) = (file.may.join(","), file.at.join(","));
            let left = if file.days_left < 0 { "expired".to_owned() } else { file.days_left.to_string() };
            let (role, until) = (file.role.to_owned(), file.until.clone());
            table.row(vec![
                file.file.clone(),
                role,
                file.name.clone(),
                may,
                file.services.clone(),
                at,
                left,
                until,
            ]);
        }
        if !self.files.is_empty() {
            print(format_args!("{}", table.render(Style::of_stdout())));
        }
    }
}

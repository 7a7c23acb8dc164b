//! `treefold vectors nearest`: the neighbours of one vector.

use super::asked::{Asked, Asking, print_verdict, read_rows, recall};
use crate::commands::call::read_json;
use crate::exit::{Failure, Verdict};
use crate::output::json::Answer;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use treefold::{Body, Reply};
use treefold_vectors::limits::{EF_DEFAULT, EF_MAX, K_DEFAULT, K_MAX};
use treefold_vectors::{Filter, Found, GetParams, Nearest as Answered, NearestParams};

/// Find the nearest neighbours of a vector
///
/// The vector is given as JSON, taken from a file, or is a stored one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("query").required(true).args(["vector", "file", "like"]))]
pub(crate) struct Nearest {
    #[command(flatten)]
    asked: Asked,

    /// The vector: a JSON list of numbers, @FILE to read it from a file, or - to read standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    vector: Option<String>,

    /// A .npy or .fvecs file of which a row is the vector
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The row of the file, from 0
    #[arg(long, value_name = "N", default_value_t = 0, requires = "file")]
    row: u64,

    /// The id of a stored vector, or its row if ids were not given
    #[arg(long, value_name = "ID")]
    like: Option<String>,

    /// Number of neighbours
    #[arg(short, value_name = "N", default_value_t = K_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(K_MAX)))]
    k: u32,

    /// Only vectors with these attributes: JSON, as in {"label": "7", "year": {"min": 2000}}
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,

    /// Attributes to show with each neighbour
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    attributes: Vec<String>,

    /// Compare every vector, although the nodes have an index
    #[arg(long)]
    exact: bool,

    /// Breadth of the search in an index; more finds more of the nearest
    #[arg(long, value_name = "N", default_value_t = EF_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(EF_MAX)))]
    ef: u32,

    /// Also ask exactly, and tell how many of the exact neighbours were found
    #[arg(long)]
    check: bool,

    /// Name of the service
    #[arg(long, value_name = "NAME", default_value = treefold_vectors::SERVICE)]
    service: String,
}

const EXAMPLES: &str = "\
Exit codes:
  0 full, 3 partial but at or above the minimum coverage, 4 below it, 5 no node reached or no provider in sight, 2 rejected

Examples:
  treefold vectors nearest --at 127.0.0.1:7700 --file queries.npy --row 3 -k 5
  treefold vectors nearest --at 127.0.0.1:7700 --like v17 --filter '{\"group\": \"g3\"}' --attributes group
  treefold vectors nearest --at 127.0.0.1:7700 --vector '[0.1, 0.7]' --check -o json";

impl Nearest {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let filter = self.filter.as_deref().map(|given| read_json("--filter", given)).transpose()?;
        let filter = filter.map(|filter| Filter::decode(&filter)).transpose();
        let filter =
            filter.map_err(|error| Failure::usage(format!("--filter: {error}")))?.unwrap_or_default();
        let asking = self.asked.connect().await?;
        let (k, ef, exact) = (self.k, self.ef, self.exact);
        let params = NearestParams {
            k,
            ef,
            exact,
            filter,
            attributes: self.attributes.clone(),
            ..NearestParams::new(self.query(&asking).await?)
        };
        let kind = format!("{}/nearest", self.service);
        let reply = asking.call::<Answered>(&kind, &params).await?;
        let check = match self.check {
            true => {
                let exact = NearestParams { exact: true, ..params };
                Some(asking.call::<Answered>(&kind, &exact).await?)
            }
            false => None,
        };
        match format {
            Format::Json => print_json(&Answer::of(&reply)),
            Format::Text => {
                if let Some(found) = &reply.value {
                    print(table(found, &self.attributes).render(Style::of_stdout()));
                }
                print_verdict(&reply);
            }
        }
        if let Some(exact) = check {
            tell_recall(&reply, &exact, format);
        }
        Ok(Verdict::of(&reply.status))
    }

    /// The vector to find the neighbours of.
    async fn query(&self, asking: &Asking) -> Result<Vec<f32>, Failure> {
        if let Some(given) = &self.vector {
            let bytes = read_json("--vector", given)?;
            return Vec::decode(&bytes)
                .map_err(|error| Failure::usage(format!("--vector: expected a list of numbers: {error}")));
        }
        if let Some(path) = &self.file {
            return Ok(read_rows(path, self.row, 1)?.remove(0));
        }
        let id = self.like.clone().expect("invariant: one of the three is given");
        let params = GetParams { ids: vec![id.clone()] };
        let reply = asking.call::<Found>(&format!("{}/get", self.service), &params).await?;
        let stored = reply.value.and_then(|found| found.vectors.into_iter().next());
        let unknown = match reply.missing.is_empty() {
            true => format!("--like: no stored vector has the id {id:?}"),
            false => format!("--like: the partitions that answered have no vector with the id {id:?}"),
        };
        stored.map(|stored| stored.vector).ok_or_else(|| Failure::usage(unknown))
    }
}

fn table(found: &Answered, attributes: &[String]) -> Table {
    let columns = [("distance", Align::Right), ("id", Align::Left), ("partition", Align::Right)];
    let mut table =
        attributes.iter().fold(Table::new(&columns), |table, name| table.with_column(name, Align::Left));
    for near in &found.neighbours {
        let mut cells = vec![format!("{:.6}", near.distance), near.id.clone(), near.partition.to_string()];
        cells.extend(attributes.iter().map(|name| near.attributes.get(name).cloned().unwrap_or_default()));
        table.row(cells);
    }
    table
}

/// Compares an answer with the exact one. In JSON it goes to standard error, because standard output has one value.
fn tell_recall(reply: &Reply<Answered>, exact: &Reply<Answered>, format: Format) {
    let (Some(found), Some(exact)) = (&reply.value, &exact.value) else { return };
    let names = |answer: &Answered| -> Vec<(u64, u32)> {
        answer.neighbours.iter().map(|near| (near.row, near.partition)).collect()
    };
    let (hits, all) = recall(names(exact).iter(), &names(found));
    let compared = found.compared;
    let line = format!(
        "recall: {hits} of the {all} exact neighbours, with {compared} distances instead of {}",
        exact.compared
    );
    match format {
        Format::Text => print(line),
        Format::Json => crate::tell!("treefold: {line}"),
    }
}

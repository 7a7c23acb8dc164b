//! `treefold stream --list-filters`: lists the filters that a stream can use.

use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use serde::Serialize;
use treefold::operators::filter::builtins;

/// A filter as printed in JSON.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    params: Vec<ListedParam>,
}

#[derive(Serialize)]
struct ListedParam {
    name: &'static str,
    meaning: &'static str,
}

/// Filters of services that this program can serve.
///
/// Nodes without the service lack them.
const OF_SERVICES: [(&str, &str, &str, &str); 1] = [(
    "hosts/hosts",
    "hosts' samples, folded: totals, spreads, the worst of each; only at nodes that serve `hosts`",
    "top",
    "length of its lists, 1 to 64; default 10",
)];

/// Prints all filters with their parameters.
pub(super) fn list(format: Format) {
    let every = builtins().iter().map(|filter| Listed {
        name: filter.name,
        summary: filter.summary,
        params: filter
            .params
            .iter()
            .map(|param| ListedParam { name: param.name, meaning: param.meaning })
            .collect(),
    });
    let of_services = OF_SERVICES.map(|(name, summary, param, meaning)| Listed {
        name,
        summary,
        params: vec![ListedParam { name: param, meaning }],
    });
    let all: Vec<Listed> = every.chain(of_services).collect();
    match format {
        Format::Json => print_json(&all),
        Format::Text => print(text(&all, Style::of_stdout())),
    }
}

fn text(all: &[Listed], style: Style) -> String {
    let width = all.iter().map(|filter| filter.name.len()).max().unwrap_or(0);
    let lines = all.iter().flat_map(|filter| {
        let first = format!("{}  {}", style.bold(format_args!("{:<width$}", filter.name)), filter.summary);
        let params = filter
            .params
            .iter()
            .map(move |param| format!("{:width$}  {}: {}", "", param.name, style.dim(param.meaning)));
        std::iter::once(first).chain(params)
    });
    let mut lines: Vec<String> = lines.collect();
    lines.push("docs/filters.md describes the packets that each filter accepts and returns.".to_owned());
    lines.join("\n")
}

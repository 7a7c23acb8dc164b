//! `treefold stream --list-filters`: what a stream can be asked to do with its waves.

use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use serde::Serialize;
use treefold::operators::filter::builtins;

/// A filter, as scripts see it.
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

/// Filters of services that this program can serve; nodes without the service lack them.
const OF_SERVICES: [(&str, &str, &str, &str); 1] = [(
    "hosts/hosts",
    "hosts' measures, folded: totals, spreads, the worst of each; of nodes that serve `hosts`",
    "top",
    "how long its lists are, 1 to 64; by default 10",
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
    lines.push("docs/filters.md says what each takes from endpoints and gives to the front-end.".to_owned());
    lines.join("\n")
}

//! `treefold topology draw`: draws a topology file.

use super::source::read_topology;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json, terminal_columns};
use clap::{Args, ValueEnum};
use serde::Serialize;
use treefold_network::topology::draw::{Drawing, Options, ROWS_MAX, dot, svg, text};

/// Draw a topology file
///
/// Equal back-ends that are neighbours share a row: node[03-63]:0 ×61. On a terminal, lines are cut to its
/// width.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Draw {
    /// File to draw; - for standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// Kind of the picture
    #[arg(long = "as", value_enum, value_name = "KIND", default_value_t)]
    kind: Kind,

    /// Draw every process in a row of its own
    #[arg(long)]
    expand: bool,

    /// Number of rows to draw at most; the rest is counted
    #[arg(long, value_name = "N", default_value_t = ROWS_MAX as u32, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,

    /// Number of columns of a line of text [default: the terminal's; without one, as many as necessary]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u32).range(1..))]
    width: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  treefold topology draw tree.top
  treefold topology draw tree.top --as svg > tree.svg
  treefold topology draw tree.top --as dot --expand | dot -Tpdf -o tree.pdf";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
enum Kind {
    /// Lines and boxes
    #[default]
    Text,
    /// Graphviz's language
    Dot,
    /// A picture for pages
    Svg,
}

impl Draw {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let topology = read_topology(&self.file)?;
        let options = Options { together: !self.expand, rows_max: self.rows as usize };
        let drawing = Drawing::of(&topology, options);
        let (kind, picture) = match self.kind {
            Kind::Text => {
                let columns = self.width.map(|columns| columns as usize);
                // JSON output does not go to a terminal, so it is not cut.
                let terminal = if format == Format::Text { terminal_columns() } else { None };
                ("text", text::to_text(&drawing, columns.or(terminal)))
            }
            Kind::Dot => ("dot", dot::to_dot(&drawing)),
            Kind::Svg => ("svg", svg::to_svg(&drawing)),
        };
        match format {
            Format::Json => print_json(&Drawn { kind, drawing: &picture }),
            Format::Text => print(picture.trim_end()),
        }
        Ok(Verdict::Full)
    }
}

/// A picture as printed in JSON.
#[derive(Serialize)]
struct Drawn<'a> {
    #[serde(rename = "as")]
    kind: &'static str,
    drawing: &'a str,
}

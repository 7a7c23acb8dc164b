//! `treefold topology draw`: a topology file as a picture.

use super::source::read_topology;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json, terminal_columns};
use clap::{Args, ValueEnum};
use serde::Serialize;
use treefold_network::topology::draw::{Drawing, Options, ROWS_MAX, dot, svg, text};

/// Draw a topology file
///
/// Back-ends that are neighbours and alike share a row: node[03-63]:0 ×61. On a terminal, lines are cut to its width.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Draw {
    /// The file; - is standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// The kind of picture
    #[arg(long = "as", value_enum, value_name = "KIND", default_value_t)]
    kind: Kind,

    /// Give every process a row of its own
    #[arg(long)]
    expand: bool,

    /// Draw so many rows at most, and count the rest
    #[arg(long, value_name = "N", default_value_t = ROWS_MAX as u32, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,

    /// Columns of a line of text [default: the terminal's; without one, as many as it takes]
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
                // What goes into a script's JSON is on no terminal.
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

/// A picture as scripts see it.
#[derive(Serialize)]
struct Drawn<'a> {
    #[serde(rename = "as")]
    kind: &'static str,
    drawing: &'a str,
}

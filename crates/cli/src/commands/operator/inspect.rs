//! `treefold operator inspect`: describes a module, and why a node would refuse it.

use super::read;
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;
use treefold::foreign::NAME_PREFIX;
use treefold_wasm::{Inspection, Limits};

/// Describe a module, its exports and imports, and why a node would refuse it, without running it
///
/// Exits with code 1 if a node would refuse the module.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// Module to inspect, a .wasm file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  treefold operator inspect top_k.wasm
  treefold operator inspect top_k.wasm -o json | jq -r .refused";

impl Inspect {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let bytes = read(&self.file)?;
        let file = self.file.display();
        let inspection = treefold_wasm::inspect(&bytes, &Limits::default())
            .map_err(|error| Failure::failed(format!("{file}: {error}")))?;
        match format {
            Format::Json => print_json(&inspection),
            Format::Text => print(render(&inspection, Style::of_stdout()).trim_end()),
        }
        match &inspection.refused {
            None => Ok(Verdict::Full),
            Some(reason) => Err(Failure::Told(format!("{file}: a node would refuse it: {reason}"))),
        }
    }
}

fn render(inspection: &Inspection, style: Style) -> String {
    let kind = inspection.kind.map_or_else(|| "no operator".to_owned(), |kind| kind.to_string());
    let mut text = format!(
        "{} {NAME_PREFIX}{}\n{} bytes, {} compiled\n",
        style.bold(&kind),
        inspection.id,
        inspection.bytes,
        inspection.compiled_bytes
    );
    // Writing to a String can't fail.
    if let Some(memory) = inspection.memory {
        let most = memory.max.map_or_else(|| "the node's limit".to_owned(), |pages| pages.to_string());
        let _ = writeln!(text, "memory: {} pages of 64 KiB, up to {most}", memory.min);
    }
    for (what, named) in [("exports", &inspection.exports), ("imports", &inspection.imports)] {
        for one in named {
            let _ = writeln!(text, "{} {}: {}", style.dim(what), one.name, one.r#type);
        }
    }
    text
}

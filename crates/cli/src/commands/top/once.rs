//! One look, printed: a frame for people, a record for scripts.

use super::model::Model;
use super::record::Record;
use super::source::Source;
use super::view::{self, Palette};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use std::io::IsTerminal;
use std::time::Instant;

/// A frame's columns and lines where nobody says.
const SIZE_DEFAULT: (u16, u16) = (80, 24);
/// The most of either that is believed.
const SIZE_MAX: u16 = 1000;

pub(crate) async fn run(
    mut source: impl Source,
    mut model: Model,
    format: Format,
) -> Result<Verdict, Failure> {
    let look = source.next().await?;
    let verdict = look.verdict();
    match format {
        Format::Json => print_json(&Record::of(&look)),
        Format::Text => {
            model.observe(look, Instant::now());
            print(frame(&model, size()));
        }
    }
    Ok(verdict)
}

/// A frame as text, without what it says by colour and without spaces at the ends of its lines. There are no keys to
/// press: it is drawn one line higher, and its foot is left out.
fn frame(model: &Model, (width, height): (u16, u16)) -> String {
    let memory = TestBackend::new(width, height.saturating_add(1));
    let mut terminal = Terminal::new(memory).expect("invariant: memory is a terminal that never fails");
    let drawn = terminal.draw(|frame| view::draw(frame, model, Instant::now(), Palette::PLAIN));
    let lines = lines(drawn.expect("invariant: memory is a terminal that never fails").buffer);
    lines[..lines.len() - 1].join("\n").trim_end().to_owned()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    buffer.content.chunks(width).map(line).collect()
}

fn size() -> (u16, u16) {
    if std::io::stdout().is_terminal()
        && let Ok(size) = ratatui::crossterm::terminal::size()
    {
        return size;
    }
    let said = |name: &str| {
        let size = std::env::var(name).ok()?.parse::<u16>().ok()?;
        (1..=SIZE_MAX).contains(&size).then_some(size)
    };
    (said("COLUMNS").unwrap_or(SIZE_DEFAULT.0), said("LINES").unwrap_or(SIZE_DEFAULT.1))
}

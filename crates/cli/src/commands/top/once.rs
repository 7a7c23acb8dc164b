//! Prints one look: a frame as text, or a record as JSON.

use super::model::Model;
use super::record::Record;
use super::source::Source;
use super::view;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::screen::Palette;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use std::io::IsTerminal;
use std::time::Instant;

/// Default columns and lines of a frame.
const SIZE_DEFAULT: (u16, u16) = (80, 24);
/// Largest accepted number of columns or lines.
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

/// Formats a frame as text, without colours and without spaces at the ends of lines.
///
/// Keys have no effect here, so the frame is drawn one line higher and its foot is cut off.
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

//! Draws the board as a picture of any size.
//!
//! ```text
//! heading: the source
//! origin, mirrors: life, place, lag, readers
//! the board's reader: its mirror, place, delay
//! the last storm
//! flights
//! the last lines of the diary
//! keys
//! ```
//!
//! On a small screen, the diary and then the flights are omitted first.

mod lines;
mod table;
#[cfg(test)]
mod tests;

use super::board::Board;
use super::keys::KEYS;
use crate::output::safe;
use crate::screen::{Palette, keys};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use std::time::Instant;

/// Lines of the diary, with its heading.
const DIARY_HEIGHT: u16 = 5;
/// Heights below which the diary is not shown.
const DIARY_HEIGHT_MIN: u16 = 20;

/// The meaning of the words, for the help.
const WORDS: [&str; 6] = [
    "at         epoch and position: the place in the feed's events",
    "committed  all mirrors that take part have the events up to here",
    "behind     events that the mirror lacks beside the furthest one",
    "delay      from the origin's sending to the board, lately",
    "gaps       events that the board missed, or got twice, in so many events",
    "p99        99 of 100 events reached the board within this time",
];

/// Draws the board at a time.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, now: Instant, palette: Palette) {
    let area = frame.area();
    let processes = lines::processes(board, palette);
    let diary = if area.height >= DIARY_HEIGHT_MIN { DIARY_HEIGHT } else { 0 };
    let [head, parts, flights, tail, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(processes.len() as u16),
        Constraint::Fill(1),
        Constraint::Length(diary),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(heading(board, palette)), head);
    frame.render_widget(Paragraph::new(processes), parts);
    table::draw(frame, flights, board, now, palette);
    frame.render_widget(
        Paragraph::new(diary_lines(board, tail.height, palette)).block(titled("diary", palette)),
        tail,
    );
    frame.render_widget(Paragraph::new(keys::line(&KEYS, foot.width, palette)), foot);
    if board.chosen.is_help {
        keys::help(frame, &KEYS, &WORDS, palette);
    }
}

fn titled(title: &'static str, palette: Palette) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(palette.faint())
        .title(Span::styled(format!("{title} "), palette.strong()))
}

fn heading(board: &Board, palette: Palette) -> Line<'static> {
    let sent = board.sent;
    let mut spans = vec![
        Span::styled("treefold demo --flights ", palette.strong()),
        Span::raw(format!(" {} flights; {} events sent, ", board.flights.len(), sent.generated)),
    ];
    let waiting = format!("{} not acknowledged", sent.unacknowledged);
    spans.push(if sent.unacknowledged > 1_000 {
        Span::styled(waiting, palette.warning())
    } else {
        Span::raw(waiting)
    });
    if sent.repeated > 0 {
        spans.push(Span::raw(format!(", {} sent again", sent.repeated)));
    }
    Line::from(spans)
}

/// The last lines of the diary that fit below its heading.
fn diary_lines(board: &Board, height: u16, palette: Palette) -> Vec<Line<'static>> {
    let shown = usize::from(height.saturating_sub(1));
    let skipped = board.diary.len().saturating_sub(shown);
    let line = |(at, text): &(std::time::Duration, String)| {
        let at = format!("{:>6.1} s  ", at.as_secs_f64());
        Line::from(vec![Span::styled(at, palette.faint()), Span::raw(safe::line(text).into_owned())])
    };
    board.diary.iter().skip(skipped).map(line).collect()
}

//! The flights, in as many columns of tables as fit.

use super::titled;
use crate::commands::demo::flights::board::{Board, Flight};
use crate::commands::demo::flights::values::{Phase, Values};
use crate::output::safe;
use crate::screen::Palette;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};
use std::time::{Duration, Instant};

/// Names of the columns, and the widths of those after the first.
const COLUMNS: [&str; 7] = ["flight", "phase", "gate", "boarded", "position", "feet", "changed"];
const WIDTHS: [u16; 7] = [7, 11, 4, 7, 18, 6, 8];
/// Columns of one table, with the space beside it.
const WIDTH: u16 = 70;
/// Time for which a change of phase is marked.
const MARKED: Duration = Duration::from_secs(3);

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, board: &Board, now: Instant, palette: Palette) {
    let tables = (area.width / WIDTH).max(1);
    // Two lines are the heading's.
    let rows = usize::from(area.height.saturating_sub(2));
    let areas = Layout::horizontal((0..tables).map(|_| Constraint::Fill(1))).spacing(1).split(area);
    let most = (rows * usize::from(tables)).max(1);
    let first = board.chosen.scrolled.min(board.flights.len().saturating_sub(most));
    let mut flights = board.flights.iter().skip(first);
    for &area in areas.iter() {
        let shown = flights.by_ref().take(rows).map(|(key, flight)| row(key, flight, now, palette));
        let header = Row::new(COLUMNS).style(palette.faint());
        let table = Table::new(shown, WIDTHS.map(Constraint::Length))
            .header(header)
            .block(titled("flights", palette));
        frame.render_widget(table, area);
    }
}

fn row(key: &str, flight: &Flight, now: Instant, palette: Palette) -> Row<'static> {
    let values = &flight.values;
    let phase = values.phase();
    let is_new =
        flight.phase_changed_at.is_some_and(|changed_at| now.saturating_duration_since(changed_at) < MARKED);
    let style = match phase {
        Phase::AllBoarded | Phase::Boarding => palette.warning(),
        Phase::Landed | Phase::Arrived => palette.good(),
        Phase::InFlight | Phase::Unknown => Style::new(),
    };
    let changed =
        flight.changed_at.map_or_else(|| "snapshot".to_owned(), |at| age(now.saturating_duration_since(at)));
    let text = |text: String| Cell::new(text);
    let right = |text: String| Cell::new(Text::from(Line::from(text).right_aligned()));
    Row::new([
        text(safe::line(key).into_owned()),
        Cell::new(phase.name()).style(if is_new { style.patch(palette.strong()) } else { style }),
        right(number(values.gate)),
        right(boarded(values)),
        right(position(values)),
        right(number(values.altitude_ft)),
        right(changed),
    ])
}

fn number(value: Option<i64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn boarded(values: &Values) -> String {
    match (values.boarded, values.expected) {
        (Some(boarded), Some(expected)) => format!("{boarded}/{expected}"),
        _ => String::new(),
    }
}

fn position(values: &Values) -> String {
    let shown = |degrees: f64, [positive, negative]: [char; 2]| {
        format!("{:.2}°{}", degrees.abs(), if degrees < 0.0 { negative } else { positive })
    };
    match (values.lat, values.lon) {
        (Some(lat), Some(lon)) => format!("{} {}", shown(lat, ['N', 'S']), shown(lon, ['E', 'W'])),
        _ => String::new(),
    }
}

fn age(since: Duration) -> String {
    format!("{:.1} s", since.as_secs_f64())
}

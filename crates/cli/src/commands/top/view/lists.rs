//! The worst hosts and the worst processes, side by side.

use super::text::{Labels, percent, size};
use crate::commands::top::model::{Model, Sort};
use crate::screen::Palette;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Row, Table};
use treefold_hosts::Placed;
use treefold_hosts::rank::HostLine;

/// Widths from which the list of hosts has more columns, and all columns.
const WIDE: u16 = 60;
const WIDEST: u16 = 74;
/// Columns of the wide list, and the widths of the columns after the host's name.
const COLUMNS: [&str; 11] =
    ["host", "cores", "cpu", "load", "mem", "of", "stall", "↓/s", "↑/s", "streams", "held"];
const WIDTHS: [u16; 10] = [5, 4, 6, 4, 5, 5, 5, 5, 7, 5];
/// Number of columns at the first of the two widths.
const COLUMNS_WIDE: usize = 9;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let [left, _, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Length(1), Constraint::Percentage(50)])
            .areas(area);
    let (hosts, processes) = (model.hosts(), model.processes());
    let named = hosts.iter().map(|line| &line.host).chain(processes.iter().map(|placed| &placed.host));
    let labels = Labels::of(named);
    draw_hosts(frame, left, model, &hosts, &labels, palette);
    draw_processes(frame, right, model, &processes, &labels, palette);
}

/// Makes a block with a heading over a rule.
pub(super) fn titled(title: String, palette: Palette) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(palette.faint())
        .title(Span::styled(title, palette.strong()))
}

fn draw_hosts(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    hosts: &[&HostLine],
    labels: &Labels<'_>,
    palette: Palette,
) {
    let wide = area.width >= WIDE;
    let columns = if area.width >= WIDEST { COLUMNS.len() } else { COLUMNS_WIDE };
    let (names, widths): (&[&str], &[u16]) = if wide {
        (&COLUMNS[..columns], &WIDTHS[..columns - 1])
    } else {
        (&["host", "cpu", "load", "mem", "net/s"], &[4, 5, 4, 5])
    };
    let rows = hosts.iter().map(|line| {
        let row =
            if wide { wide_row(line, columns, labels, palette) } else { narrow_row(line, labels, palette) };
        if model.selected == Some(line.host.id) { row.style(palette.chosen()) } else { row }
    });
    let title = format!("hosts by {} ", model.sort.name());
    frame.render_widget(table(rows, names, widths, 1, title, palette), area);
}

fn narrow_row(line: &HostLine, labels: &Labels<'_>, palette: Palette) -> Row<'static> {
    Row::new([
        Cell::new(labels.label(&line.host)),
        share(line.cpu_permille, palette),
        load(line),
        share(line.memory_permille, palette),
        right(size(line.rx_bytes_s.saturating_add(line.tx_bytes_s))),
    ])
}

fn wide_row(line: &HostLine, columns: usize, labels: &Labels<'_>, palette: Palette) -> Row<'static> {
    let cells: [Cell<'static>; COLUMNS.len()] = [
        Cell::new(labels.label(&line.host)),
        right(line.cores.to_string()),
        share(line.cpu_permille, palette),
        load(line),
        share(line.memory_permille, palette),
        right(size(line.memory_bytes)),
        right(line.memory_stall_permille.map_or_else(unknown, percent)),
        right(size(line.rx_bytes_s)),
        right(size(line.tx_bytes_s)),
        right(line.node.map_or_else(unknown, |node| node.streams.to_string())),
        right(line.node.map_or_else(unknown, |node| size(node.bytes))),
    ];
    Row::new(cells.into_iter().take(columns))
}

fn draw_processes(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    processes: &[&Placed],
    labels: &Labels<'_>,
    palette: Palette,
) {
    let rows = processes.iter().map(|placed| {
        let process = &placed.process;
        Row::new([
            Cell::new(process.name.to_string()),
            Cell::new(labels.label(&placed.host)),
            right(process.pid.to_string()),
            right(format!("{}%", process.cpu_mcores / 10)),
            right(size(process.rss_bytes)),
        ])
    });
    let by = if model.sort == Sort::Memory { "memory" } else { "cpu" };
    let chosen = model.selected.and_then(|id| model.hosts().into_iter().find(|line| line.host.id == id));
    let of = chosen.map_or_else(String::new, |line| format!("of {} ", labels.label(&line.host)));
    let title = format!("processes {of}by {by} ");
    let names = ["process", "host", "pid", "cpu", "mem"];
    frame.render_widget(table(rows, &names, &[7, 5, 5], 2, title, palette), area);
}

/// Makes a table whose first `texts` columns share the width that the others leave.
fn table<'a>(
    rows: impl Iterator<Item = Row<'a>>,
    names: &[&'static str],
    widths: &[u16],
    texts: usize,
    title: String,
    palette: Palette,
) -> Table<'a> {
    let heading = names.iter().enumerate().map(|(at, name)| {
        let line = Line::from(*name);
        Cell::new(if at < texts { line } else { line.right_aligned() })
    });
    let columns = std::iter::repeat_n(Constraint::Fill(1), texts)
        .chain(widths.iter().map(|&width| Constraint::Length(width)));
    Table::new(rows, columns)
        .header(Row::new(heading).style(palette.faint()))
        .column_spacing(1)
        .block(titled(title, palette))
}

fn load(line: &HostLine) -> Cell<'static> {
    right(format!("{:.1}", line.load_1_milli as f64 / 1000.0))
}

fn share(permille: u64, palette: Palette) -> Cell<'static> {
    right(percent(permille)).style(palette.share(permille))
}

/// Text for an unknown figure.
fn unknown() -> String {
    "?".to_owned()
}

fn right(text: String) -> Cell<'static> {
    Cell::new(Line::from(text).right_aligned())
}

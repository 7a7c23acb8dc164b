//! The totals of the cluster: each figure now, its spread over hosts, and its history.

use super::text::{percent, size};
use crate::commands::top::model::{Model, Point};
use crate::screen::Palette;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use treefold_hosts::Hosts;
use treefold_hosts::bins::Scale;
use treefold_hosts::spread::Spread;

/// Number of looks in a history: three minutes at one per second, at any width.
const SHOWN: usize = 180;
/// Columns of the text before a history, and its columns on a wide screen.
const TEXT_WIDTH: u16 = 46;
const TEXT_WIDTH_WIDE: u16 = 64;
/// Width from which a screen is wide.
const WIDE: u16 = 120;
/// Columns before the quantiles.
const SPREAD_AT: u16 = 26;
/// Columns of a histogram, one for each five percent.
const HISTOGRAM_BINS: usize = 20;

/// Height of all totals together.
pub(super) fn height(tall: bool) -> u16 {
    if tall { 15 } else { 5 }
}

/// One figure of the cluster.
struct Metric {
    label: &'static str,
    now: String,
    style: Style,
    /// Quantiles over hosts.
    spread: String,
    /// Details that are shown only on a tall screen.
    more: [String; 2],
    history: Vec<Option<u64>>,
    /// Value of the full height; `None` for the greatest one shown.
    full: Option<u64>,
}

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    hosts: &Hosts,
    palette: Palette,
    tall: bool,
) {
    let rows: [Rect; 5] = Layout::vertical([Constraint::Length(if tall { 3 } else { 1 }); 5]).areas(area);
    let text_width = if area.width >= WIDE { TEXT_WIDTH_WIDE } else { TEXT_WIDTH };
    let columns = usize::from(area.width.saturating_sub(text_width));
    let per_column = (SHOWN / columns.max(1)).max(1);
    let past = |figure: fn(&Point) -> u64| model.history.columns(columns, per_column, figure);
    let metrics = [
        cpu(hosts, past(|point| point.cpu_permille), palette),
        memory(hosts, past(|point| point.memory_permille), palette),
        network(hosts, past(|point| point.net_bytes_s)),
        disk(hosts, past(|point| point.disk_bytes_s)),
    ];
    for (metric, row) in metrics.iter().zip(rows) {
        draw_metric(frame, row, metric, text_width, palette);
    }
    draw_histogram(frame, rows[4], hosts, palette);
}

fn cpu(hosts: &Hosts, history: Vec<Option<u64>>, palette: Palette) -> Metric {
    let figures = &hosts.figures;
    let share = figures.cpu_permille();
    let of_all = |mcores: u64| percent(mcores / figures.cores.max(1));
    let core = hosts.cores.quantile(0.99).unwrap_or(0);
    Metric {
        label: "cpu",
        now: format!("{} of {} cores", percent(share), figures.cores),
        style: palette.share(share),
        spread: shares(&hosts.cpu),
        more: [
            extremes(&hosts.cpu, percent),
            format!(
                "iowait {}, stolen {}, load {}.{}, busiest 1% of cores {}",
                of_all(figures.iowait_mcores),
                of_all(figures.steal_mcores),
                figures.load_1_milli / 1000,
                figures.load_1_milli % 1000 / 100,
                percent(core)
            ),
        ],
        history,
        full: Some(1000),
    }
}

fn memory(hosts: &Hosts, history: Vec<Option<u64>>, palette: Palette) -> Metric {
    let figures = &hosts.figures;
    let share = figures.memory_permille();
    Metric {
        label: "memory",
        now: format!("{} of {}", percent(share), size(figures.memory_bytes)),
        style: palette.share(share),
        spread: shares(&hosts.memory),
        more: [
            extremes(&hosts.memory, percent),
            format!("swap {} of {}", size(figures.swap_used_bytes), size(figures.swap_bytes)),
        ],
        history,
        full: Some(1000),
    }
}

fn network(hosts: &Hosts, history: Vec<Option<u64>>) -> Metric {
    let figures = &hosts.figures;
    Metric {
        label: "net/s",
        now: format!("↓{} ↑{}", size(figures.rx_bytes_s), size(figures.tx_bytes_s)),
        style: Style::new(),
        spread: rates(&hosts.net),
        more: [
            extremes(&hosts.net, size),
            format!(
                "packets ↓{} ↑{}, errors {}, drops {}",
                size(figures.rx_packets_s),
                size(figures.tx_packets_s),
                size(figures.net_errors_milli_s / 1000),
                size(figures.net_drops_milli_s / 1000)
            ),
        ],
        history,
        full: None,
    }
}

fn disk(hosts: &Hosts, history: Vec<Option<u64>>) -> Metric {
    let figures = &hosts.figures;
    Metric {
        label: "disk/s",
        now: format!("r{} w{}", size(figures.read_bytes_s), size(figures.write_bytes_s)),
        style: Style::new(),
        spread: rates(&hosts.disk),
        more: [
            extremes(&hosts.disk, size),
            format!("{} of {} full", size(figures.disk_used_bytes), size(figures.disk_bytes)),
        ],
        history,
        full: None,
    }
}

fn shares<S: Scale>(spread: &Spread<S>) -> String {
    quantiles(spread, percent)
}

fn rates<S: Scale>(spread: &Spread<S>) -> String {
    quantiles(spread, size)
}

fn quantiles<S: Scale>(spread: &Spread<S>, shown: fn(u64) -> String) -> String {
    let at = |q| spread.quantile(q).map_or_else(|| "?".to_owned(), shown);
    format!("p50 {} p99 {}", at(0.5), at(0.99))
}

fn extremes<S: Scale>(spread: &Spread<S>, shown: fn(u64) -> String) -> String {
    match (spread.least(), spread.greatest()) {
        (Some(least), Some(greatest)) => format!(
            "least {} {}, most {} {}",
            shown(least.value),
            least.host.name,
            shown(greatest.value),
            greatest.host.name
        ),
        _ => String::new(),
    }
}

fn draw_metric(frame: &mut Frame<'_>, area: Rect, metric: &Metric, text_width: u16, palette: Palette) {
    let [text, line] = Layout::horizontal([Constraint::Length(text_width), Constraint::Fill(1)]).areas(area);
    let first = Line::from(vec![
        Span::styled(format!("{:<7}", metric.label), palette.strong()),
        Span::styled(format!("{:<18} ", metric.now), metric.style),
        Span::raw(metric.spread.clone()),
    ]);
    let more = metric.more.iter().map(|more| Line::styled(format!("       {more}"), palette.faint()));
    let lines: Vec<Line<'_>> = std::iter::once(first).chain(more).take(area.height.into()).collect();
    let clipped = Rect { width: text.width.saturating_sub(1), ..text };
    frame.render_widget(Paragraph::new(lines), clipped);
    let greatest = metric.history.iter().flatten().copied().max().unwrap_or(0);
    let sparkline = Sparkline::default()
        .data(metric.history.iter().copied())
        .max(metric.full.unwrap_or(greatest).max(1))
        .style(palette.line())
        .absent_value_symbol("·");
    // The latest value is at the right edge, even if the history is short.
    let width = line.width.min(metric.history.len() as u16);
    let recent = Rect { x: line.right() - width, width, ..line };
    frame.render_widget(sparkline, recent);
}

/// Draws the number of hosts by use of processors, from idle at the left to full at the right.
fn draw_histogram(frame: &mut Frame<'_>, area: Rect, hosts: &Hosts, palette: Palette) {
    let mut bins = [0u64; HISTOGRAM_BINS];
    for (bin, count) in hosts.cpu.bins().iter() {
        let column = usize::from(bin) * HISTOGRAM_BINS / 100;
        bins[column.min(HISTOGRAM_BINS - 1)] += count;
    }
    let [text, idle, bars, busy] = Layout::horizontal([
        Constraint::Length(SPREAD_AT),
        Constraint::Length(5),
        Constraint::Length(HISTOGRAM_BINS as u16),
        Constraint::Fill(1),
    ])
    .areas(area);
    let label = Line::from(vec![
        Span::styled("hosts  ", palette.strong()),
        Span::raw(format!("{} by use of cpu", hosts.hosts)),
    ]);
    frame.render_widget(Paragraph::new(label), text);
    let greatest = bins.iter().copied().max().unwrap_or(0).max(1);
    frame.render_widget(Sparkline::default().data(bins).max(greatest).style(palette.line()), bars);
    let last = |area: Rect| Rect { y: area.bottom().saturating_sub(1), height: area.height.min(1), ..area };
    frame.render_widget(Paragraph::new("idle "), last(idle));
    frame.render_widget(Paragraph::new(" busy"), last(busy));
}

//! A line for each process, for the board's reader, and for the last storm.

use crate::commands::demo::flights::board::{Board, MirrorLine};
use crate::commands::demo::flights::news::{Life, Part, Storm};
use crate::commands::demo::flights::tally::StormFigures;
use crate::commands::mirror::report::word;
use crate::output::safe;
use crate::screen::Palette;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;

/// Columns of a process's name.
const NAME: usize = 8;

/// The lines of all processes, of the reader, and of the storm if there was one.
pub(super) fn processes(board: &Board, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = vec![origin(board, palette)];
    let furthest = board.furthest();
    for (number, mirror) in board.mirrors.iter().enumerate() {
        lines.push(of_mirror(board, number, mirror, furthest, palette));
    }
    lines.push(reader(board, palette));
    lines.extend(board.reader.tally.last_storm().map(|storm| storm_line(&storm, palette)));
    lines
}

fn life(life: Life, palette: Palette) -> Span<'static> {
    match life {
        Life::Starting => Span::styled("starts  ", palette.warning()),
        Life::Alive => Span::styled("alive   ", palette.good()),
        Life::Stopped => Span::styled("stopped ", palette.warning()),
        Life::Dead => Span::styled("dead    ", palette.bad()),
    }
}

/// The key and the name of a process, marked if it is selected.
fn name(board: &Board, part: Part, key: &str, palette: Palette) -> Vec<Span<'static>> {
    let text = match part {
        Part::Origin => "origin".to_owned(),
        Part::Mirror(number) => format!("mirror {number}"),
    };
    let style = if board.selected() == part { palette.chosen() } else { Style::new() };
    vec![
        Span::styled(format!("{key} "), palette.strong()),
        Span::styled(format!("{text:<NAME$}"), style),
        Span::raw("  "),
        life(board.life(part), palette),
    ]
}

fn origin(board: &Board, palette: Palette) -> Line<'static> {
    let mut spans = name(board, Part::Origin, "o", palette);
    let Some(report) = &board.origin.report else { return Line::from(spans) };
    let rates = board.origin.rates();
    let rates =
        rates.map_or_else(String::new, |(offered, sent)| format!("  {offered:.0}/s in, {sent:.0}/s out"));
    spans.push(Span::raw(format!(
        "at {:<9} committed {:<7} {}{rates}",
        format!("{}.{}", report.epoch, report.position),
        report.committed,
        word(report.mode)
    )));
    if report.refused > 0 {
        spans.push(Span::styled(format!("  {} refused", report.refused), palette.bad()));
    }
    if let Some(problem) = &report.journal_problem {
        spans.push(Span::styled(format!("  the journal: {}", safe::line(problem)), palette.bad()));
    }
    Line::from(spans)
}

fn of_mirror(
    board: &Board,
    number: usize,
    mirror: &MirrorLine,
    furthest: u64,
    palette: Palette,
) -> Line<'static> {
    let mut spans = name(board, Part::Mirror(number), &number.to_string(), palette);
    match &mirror.status {
        Some(status) => {
            let behind = furthest.saturating_sub(status.position);
            spans.push(Span::raw(format!(
                "at {:<9} committed {:<7} behind {behind:<4} readers {:<3}",
                format!("{}.{}", status.epoch, status.position),
                status.committed,
                status.readers
            )));
            if !status.is_current {
                spans.push(Span::styled("joins ", palette.warning()));
            }
        }
        None if mirror.life == Life::Dead => {}
        None => spans.push(Span::styled("no answer ", palette.warning())),
    }
    if let Some(url) = &mirror.url {
        spans.push(Span::styled(format!(" {}", safe::line(url)), palette.faint()));
    }
    Line::from(spans)
}

fn reader(board: &Board, palette: Palette) -> Line<'static> {
    let reader = &board.reader;
    let mut spans = vec![Span::styled(format!("  {:<NAME$}  ", "board"), palette.line())];
    let (Some(mirror), Some(joined)) = (reader.mirror, reader.joined_in) else {
        spans.push(Span::styled("waits for its snapshot", palette.warning()));
        return Line::from(spans);
    };
    let tally = &reader.tally;
    let at = tally.cut.map_or_else(String::new, |cut| cut.to_string());
    spans.push(Span::raw(format!("mirror {mirror}, {at}; ")));
    if let Some((half, most)) = tally.delay() {
        spans.push(Span::raw(format!("delay {}, p99 {}; ", ms(half), ms(most))));
    }
    let gaps = format!("{} gaps", tally.gaps);
    spans.push(Span::styled(gaps, if tally.gaps == 0 { palette.good() } else { palette.bad() }));
    let (events, resumed) = (tally.events, tally.resumed);
    spans.push(Span::raw(format!(" in {events}; resumed {resumed}; joined in {}", ms(joined))));
    Line::from(spans)
}

fn storm_line(storm: &StormFigures, palette: Palette) -> Line<'static> {
    let StormFigures { now, readers, before, during } = *storm;
    let mut spans = vec![Span::styled(format!("  {:<NAME$}  ", "storm"), palette.line())];
    spans.push(Span::raw(match now {
        Storm::Begins(_) => format!("{readers} join"),
        Storm::Joined(joined) => format!("{joined} of {readers} joined"),
        Storm::Over => "over".to_owned(),
        Storm::Ended { joined, half, all, .. } => {
            format!("{joined} of {readers} joined in {}, half in {}", ms(all), ms(half))
        }
    }));
    let p99 = |time: Option<Duration>| time.map_or_else(|| "–".to_owned(), ms);
    spans.push(Span::raw(format!("; p99 {} before, {} in it", p99(before), p99(during))));
    Line::from(spans)
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

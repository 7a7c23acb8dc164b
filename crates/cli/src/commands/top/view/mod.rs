//! A model as a picture of any size.
//!
//! ```text
//! heading: who is asked, how many answered, how long it took, its streams
//! totals:  cpu, memory, network, disk: now, spread over hosts, and a line of what was before
//! hosts, worst first        │ processes, worst first
//! slowest subtrees, stream  │ who is missing, and why
//! keys, or what is wrong
//! ```
//!
//! At 80 by 24 everything is there, on one line each; where there is more room, totals are three lines high and
//! tables have more columns. Where there is less, what is below goes first.

mod lists;
mod palette;
mod tails;
#[cfg(test)]
mod tests;
mod text;
mod totals;

pub(crate) use palette::Palette;

use super::keys::KEYS;
use super::model::Model;
use super::source::Nodes;
use crate::output::short;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use std::time::Instant;
use text::size;

/// From this height on, totals are three lines high.
const TALL: u16 = 40;
/// Below this height the tree and who is missing are not shown.
const TAILS_HEIGHT_MIN: u16 = 18;
/// Of which the tree and who is missing take this.
const TAILS_HEIGHT: u16 = 6;

/// Draws it.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model, now: Instant, palette: Palette) {
    let area = frame.area();
    let tall = area.height >= TALL;
    let tails = if area.height >= TAILS_HEIGHT_MIN { TAILS_HEIGHT + u16::from(tall) * 3 } else { 0 };
    let [head, totals, lists, tail, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(totals::height(tall)),
        Constraint::Fill(1),
        Constraint::Length(tails),
        Constraint::Length(1),
    ])
    .areas(area);
    heading(frame, head, model, now, palette);
    if let Some(hosts) = model.folded() {
        totals::draw(frame, totals, model, hosts, palette, tall);
        lists::draw(frame, lists, model, palette);
    } else {
        let nothing = "no host has answered";
        frame.render_widget(Paragraph::new(Span::styled(nothing, palette.warning())).centered(), totals);
    }
    tails::draw(frame, tail, model, palette);
    // What is wrong matters more than what keys do, and needs the width.
    let last = model
        .trouble
        .as_ref()
        .map_or_else(|| keys_line(palette), |trouble| Line::styled(trouble.clone(), palette.bad()));
    frame.render_widget(Paragraph::new(last), foot);
    if model.help {
        help(frame, area, palette);
    }
}

/// Who is asked, how many answered, how long it took, and what streams there are at who is asked.
fn heading(frame: &mut Frame<'_>, area: Rect, model: &Model, now: Instant, palette: Palette) {
    let mut spans = vec![Span::styled("treefold top ", palette.strong()), Span::raw(model.asked.clone())];
    if let Some((at, look)) = &model.look {
        let coverage = format!("{} of {} hosts", look.contributed, look.asked);
        let full = look.contributed == look.asked;
        spans.push(Span::raw("  "));
        spans.push(Span::styled(coverage, if full { palette.good() } else { palette.warning() }));
        let way = match &look.network {
            Some(_) => "  by stream".to_owned(),
            None => format!("  in {}", short(look.elapsed)),
        };
        spans.push(Span::raw(way));
        if model.trouble.is_some() || model.paused {
            let age = format!("  {} s ago", now.saturating_duration_since(*at).as_secs());
            spans.push(Span::styled(age, palette.warning()));
        }
    }
    spans.push(Span::raw(format!("  every {:?}", model.interval)));
    if model.paused {
        spans.push(Span::styled("  paused", palette.warning()));
    }
    // Last, for it goes first where there is no room.
    let nodes = model.look.as_ref().and_then(|(_, look)| look.nodes.as_ref());
    spans.extend(nodes.map(|nodes| Span::raw(streams_of(nodes))));
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// The streams of the node that is asked: this command's own is one of them where the node takes part in it.
fn streams_of(nodes: &Nodes) -> String {
    let plural = if nodes.streams == 1 { "" } else { "s" };
    format!("  {} stream{plural}, {}", nodes.streams, size(nodes.stream_bytes as u64))
}

fn keys_line(palette: Palette) -> Line<'static> {
    let pair = |(keys, what, _)| [Span::styled(keys, palette.strong()), Span::raw(format!(" {what}  "))];
    Line::from_iter(KEYS.into_iter().flat_map(pair))
}

/// What keys do, and what the words mean, over everything else.
fn help(frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let key = |(keys, _, does)| {
        Line::from(vec![Span::styled(format!("{keys:>6}  "), palette.strong()), Span::raw(does)])
    };
    let mut lines: Vec<Line<'_>> = KEYS.into_iter().map(key).collect();
    lines.push(Line::default());
    let words = [
        "stall   share of the time in which somebody waited for memory",
        "p50 p99 half of the hosts, all but one in a hundred, are no higher",
        "streams that the host's node takes part in, and bytes held of them",
        "wait    what a subtree's root spent most of its time on: the blame",
        "        ends where that is no longer waiting for its children",
        "K M G   powers of 1024; a process's cpu is in percent of a core",
    ];
    lines.extend(words.map(Line::from));
    let (width, height) = (72.min(area.width), (lines.len() as u16 + 2).min(area.height));
    let popup =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, popup);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" help ")), popup);
}

//! Draws a model as a picture of any size.
//!
//! ```text
//! heading: the node asked, number of answers, time, its streams
//! totals:  cpu, memory, network, disk: now, spread over hosts, and their history
//! hosts, worst first        │ processes, worst first
//! slowest subtrees, stream  │ missing hosts, with reasons
//! keys, or the last error
//! ```
//!
//! At 80 by 24 all parts are shown, with one line for each total. On a larger screen, totals are three lines
//! high and tables have more columns. On a smaller screen, the lower parts are omitted first.

mod lists;
mod tails;
#[cfg(test)]
mod tests;
mod text;
mod totals;

use super::keys::KEYS;
use super::model::Model;
use super::source::Nodes;
use crate::output::short;
use crate::screen::{Palette, keys};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use std::time::Instant;
use text::size;

/// Height from which totals are three lines high.
const TALL: u16 = 40;
/// Height below which the tree and the missing hosts are not shown.
const TAILS_HEIGHT_MIN: u16 = 18;
/// Height of the tree and the missing hosts.
const TAILS_HEIGHT: u16 = 6;

/// The meaning of the words, for the help.
const WORDS: [&str; 6] = [
    "stall   share of the time in which a process waited for memory",
    "p50 p99 half of the hosts, and 99 of 100 hosts, are no higher",
    "streams number of streams of the host's node; held: their bytes",
    "wait    the subtree's root mostly waited for its children: look for",
    "        the cause further down, where this is no longer wait",
    "K M G   powers of 1024; a process's cpu is in percent of a core",
];

/// Draws the picture.
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
    // An error matters more than the keys, and needs the width.
    let last = model.trouble.as_ref().map_or_else(
        || keys::line(&KEYS, foot.width, palette),
        |trouble| Line::styled(trouble.clone(), palette.bad()),
    );
    frame.render_widget(Paragraph::new(last), foot);
    if model.help {
        keys::help(frame, &KEYS, &WORDS, palette);
    }
}

/// Draws the node that is asked, the number of answers, the time they took, and the node's streams.
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
    // The last part, because it is cut off first if there is no room.
    let nodes = model.look.as_ref().and_then(|(_, look)| look.nodes.as_ref());
    spans.extend(nodes.map(|nodes| Span::raw(streams_of(nodes))));
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// Formats the streams of the node that is asked.
///
/// They include this command's own stream if the node takes part in it.
fn streams_of(nodes: &Nodes) -> String {
    let plural = if nodes.streams == 1 { "" } else { "s" };
    format!("  {} stream{plural}, {}", nodes.streams, size(nodes.stream_bytes as u64))
}

//! The slowest subtrees, the stream's tree, and the missing hosts.

use super::lists::titled;
use crate::commands::top::model::Model;
use crate::commands::top::slowest::Subtree;
use crate::commands::top::source::{Look, Nodes};
use crate::commands::top::streamed::Network;
use crate::output::short;
use crate::screen::Palette;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use std::time::Duration;
use treefold::Missing;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let Some((_, look)) = &model.look else { return };
    let [left, _, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Length(1), Constraint::Percentage(50)])
            .areas(area);
    let stream_height = look.network.as_ref().map_or(0, |network| stream_height(network, left.height));
    let [slowest, stream] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(stream_height)]).areas(left);
    draw_slowest(frame, slowest, look, palette);
    if let Some(network) = &look.network {
        draw_stream(frame, stream, network, palette);
    }
    draw_missing(frame, right, look, palette);
}

fn draw_slowest(frame: &mut Frame<'_>, area: Rect, look: &Look, palette: Palette) {
    let mut lines: Vec<Line<'_>> = look.nodes.iter().map(|nodes| Line::from(nodes_line(nodes))).collect();
    lines.extend(look.slowest.iter().map(|subtree| Line::from(subtree_line(subtree))));
    let of = look.nodes.as_ref().map_or_else(String::new, |nodes| format!("of {} nodes ", nodes.in_sight));
    let title = format!("slowest subtrees {of}");
    frame.render_widget(Paragraph::new(lines).block(titled(title, palette)), area);
}

/// Height of a heading and, if there is room, of the away endpoints.
///
/// The slowest subtrees keep half of the height.
fn stream_height(network: &Network, height: u16) -> u16 {
    let away = u16::try_from(network.away.len()).unwrap_or(u16::MAX);
    (height / 2).min(away.saturating_add(2))
}

fn draw_stream(frame: &mut Frame<'_>, area: Rect, network: &Network, palette: Palette) {
    let Network { levels, nodes, endpoints, changes, away } = network;
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let tree = format!(
        "{endpoints} endpoint{}, {nodes} node{}, {levels} level{}",
        plural(*endpoints),
        plural(*nodes),
        plural(*levels)
    );
    let mut lines = vec![Line::from(tree)];
    let gone = away.iter().map(|missing| format!("away: {}", missing_line(missing)));
    lines.extend(gone.map(|line| Line::styled(line, palette.warning())));
    let title = match changes {
        0 => "stream ".to_owned(),
        1 => "stream, changed once ".to_owned(),
        times => format!("stream, changed {times} times "),
    };
    frame.render_widget(Paragraph::new(lines).block(titled(title, palette)), area);
}

fn nodes_line(nodes: &Nodes) -> String {
    let Nodes { load_ms_mean, load_ms_max, most_loaded, .. } = nodes;
    format!("load {load_ms_mean:.1} ms, {load_ms_max:.1} at {most_loaded}")
}

/// Formats a subtree: its time, main activity, root, and number of nodes.
fn subtree_line(subtree: &Subtree) -> String {
    let time = short(Duration::from_micros(subtree.total_us));
    let below = if subtree.nodes > 1 { format!(", {} nodes", subtree.nodes) } else { String::new() };
    format!("{time:>7} {:<6} {}{below}", subtree.mostly, subtree.node)
}

fn draw_missing(frame: &mut Frame<'_>, area: Rect, look: &Look, palette: Palette) {
    let room = usize::from(area.height.saturating_sub(1));
    let missing = look.missing.len();
    // If not all losses fit, the last line gives the number of the rest.
    let shown = if missing > room { room.saturating_sub(1) } else { missing };
    let losses = look.missing[..shown].iter();
    let mut lines: Vec<Line<'_>> =
        losses.map(|missing| Line::styled(missing_line(missing), palette.warning())).collect();
    if shown < missing {
        lines.push(Line::styled(format!("and {} more losses", missing - shown), palette.warning()));
    }
    let title = match look.asked - look.contributed.min(look.asked) {
        0 => "no host is missing ".to_owned(),
        lost => format!("missing {lost} of {} ", look.asked),
    };
    frame.render_widget(Paragraph::new(lines).block(titled(title, palette)), area);
}

/// Formats a loss: the hosts, the reason, and the node on which they were expected.
fn missing_line(missing: &Missing) -> String {
    let plural = if missing.partitions.len() == 1 { "" } else { "s" };
    let place = missing.node.map_or_else(String::new, |node| format!(", at {node}"));
    format!("host{plural} {}: {}{place}", missing.partitions, missing.reason)
}

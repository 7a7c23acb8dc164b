//! Builds a graph: rows are inserted in order, each linked to near rows in several directions.
//!
//! A row's level is drawn from its number, so a graph depends only on its rows and its options.

use super::{Graph, GraphOptions, LEVELS_MAX, Visited, Walk};
use crate::draw::Draw;
use crate::near::{Near, Space};
use treefold_operators::Result;

/// Rows between two reports of progress.
const ROWS_PER_REPORT: usize = 1_000;

/// Links all rows of a partition. `progress` is told the number of rows since its last call.
pub(crate) fn build(
    space: Space<'_>,
    options: GraphOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Graph> {
    let links = options.links as usize;
    let levels = (0..space.rows()).map(|row| level(row as u64, links)).collect();
    let mut build = Building {
        graph: Graph::new(links, levels),
        space,
        breadth: options.breadth as usize,
        visited: Visited::new(space.rows()),
    };
    for at in 1..space.rows() {
        build.insert(at as u32)?;
        if at.is_multiple_of(ROWS_PER_REPORT) {
            progress(ROWS_PER_REPORT as u64);
        }
    }
    progress((space.rows() % ROWS_PER_REPORT) as u64);
    Ok(build.graph)
}

/// A row is on level `l` and above with a probability of `links` to the power of −l.
fn level(row: u64, links: usize) -> u8 {
    let mut draw = Draw::new(row);
    let mut level = 0;
    while level < LEVELS_MAX && draw.unit() * (links as f64) < 1.0 {
        level += 1;
    }
    level
}

struct Building<'a> {
    graph: Graph,
    space: Space<'a>,
    breadth: usize,
    visited: Visited,
}

impl Building<'_> {
    fn insert(&mut self, at: u32) -> Result<()> {
        let Self { graph, space, breadth, visited } = self;
        let (space, mut compared) = (*space, 0);
        let query = space.row(at);
        let (own, top) = (graph.levels[at as usize], graph.levels[graph.entry as usize]);
        let mut near = Near { distance: space.rank(query, graph.entry), at: graph.entry };
        for level in (own + 1..=top).rev() {
            near = graph.descend(space, query, near, level, &mut compared);
        }
        let mut from = vec![near];
        for level in (0..=own.min(top)).rev() {
            let mut walk =
                Walk { space, query, breadth: *breadth, visited: &mut *visited, compared: &mut compared };
            let found = graph.walk(&mut walk, &from, level, |_| true)?;
            let chosen = choose(space, &found, graph.links);
            set(graph.slot_mut(at, level), &chosen);
            for other in &chosen {
                connect(graph, space, *other, at, level);
            }
            from = found;
        }
        if own > top {
            graph.entry = at;
        }
        Ok(())
    }
}

fn set(slot: &mut [u32], chosen: &[Near]) {
    slot[0] = chosen.len() as u32;
    for (link, near) in slot[1..].iter_mut().zip(chosen) {
        *link = near.at;
    }
}

/// Adds a link from `from` back to the row `to`, which is as far from it as it is from `to`. A full row drops
/// one of its links.
fn connect(graph: &mut Graph, space: Space<'_>, from: Near, to: u32, level: u8) {
    let slot = graph.slot_mut(from.at, level);
    let (count, room) = (slot[0] as usize, slot.len() - 1);
    if count < room {
        slot[count + 1] = to;
        slot[0] += 1;
        return;
    }
    let row = space.row(from.at);
    let mut all: Vec<Near> = slot[1..].iter().map(|&at| Near { distance: space.rank(row, at), at }).collect();
    all.push(Near { distance: from.distance, at: to });
    all.sort_unstable();
    let chosen = choose(space, &all, room);
    set(graph.slot_mut(from.at, level), &chosen);
}

/// Chooses at most `count` links among rows that are sorted by distance: first the rows that are nearer to
/// the centre than to any row chosen before, which lie in different directions, then the nearest others.
fn choose(space: Space<'_>, sorted: &[Near], count: usize) -> Vec<Near> {
    if sorted.len() <= count {
        return sorted.to_vec();
    }
    let mut chosen: Vec<Near> = Vec::with_capacity(count);
    let mut others = Vec::new();
    for near in sorted {
        if chosen.len() == count {
            break;
        }
        let row = space.row(near.at);
        // Of equal rows one is enough. A row equal to the centre is as far from others as the centre, and must not
        // keep them out, or many equal rows would be linked to each other only.
        let is_apart = chosen
            .iter()
            .all(|other| near.distance <= space.rank(row, other.at) && row != space.row(other.at));
        if is_apart { chosen.push(*near) } else { others.push(*near) }
    }
    let missing = count - chosen.len();
    chosen.extend(others.into_iter().take(missing));
    chosen
}

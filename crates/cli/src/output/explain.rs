//! Draws the tree of a call: its parents and children, and how each node spent the time.
//!
//! There is one line for each node, with children below their parent. Each line has a bar as wide as the
//! node's share of the root's time, divided into queueing, local, folding, and waiting for children. The slow
//! branch has long bars all the way down, and the node that caused the delay is the lowest of them.

use super::style::Style;
use super::table::{Align, Table};
use treefold_core::id::NodeId;
use treefold_core::message::Report;
use treefold_core::time::Duration;

/// Width of the root's bar.
const BAR_WIDTH: usize = 32;

/// Width at which a list of partitions is cut.
const PARTITIONS_WIDTH_MAX: usize = 24;

/// Meaning of the signs of a bar.
const LEGEND: &str = "· queued  █ local  ▓ reduce  ░ waiting for children";

/// Draws the tree, without a newline at its end.
pub fn draw(report: &Report, style: Style) -> String {
    draw_named(report, style, |node| node.to_string())
}

/// The same with a name for each node.
pub fn draw_named(report: &Report, style: Style, name: impl Fn(NodeId) -> String) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("rack", Align::Left),
        ("partitions", Align::Left),
        ("queue ms", right),
        ("local ms", right),
        ("reduce ms", right),
        ("wait ms", right),
        ("total ms", right),
        ("", Align::Left),
    ]);
    let scale = report.total;
    let mut open = vec![(report, String::new(), String::new())];
    // Depth first with the next child on top of the stack, so that the order is that of a drawing, without
    // recursion.
    while let Some((report, branch, below)) = open.pop() {
        table.row(row(report, format!("{branch}{}", name(report.node)), scale.into()));
        let last = report.children.len().saturating_sub(1);
        for (at, child) in report.children.iter().enumerate().rev() {
            let (elbow, rail) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((child, format!("{below}{elbow}"), format!("{below}{rail}")));
        }
    }
    let mut drawn = table.render(style);
    for (report, _) in walk(report).filter(|(report, _)| !report.replaced.is_empty()) {
        let replaced: Vec<String> = report.replaced.iter().map(|&node| name(node)).collect();
        drawn += &format!("\n{} asked others in place of {}", name(report.node), replaced.join(", "));
    }
    format!("{drawn}\n{}", style.dim(LEGEND))
}

/// Returns the number of levels below the root.
pub fn depth(report: &Report) -> usize {
    walk(report).map(|(_, level)| level).max().unwrap_or(0)
}

/// Returns the number of nodes that took part.
pub fn nodes(report: &Report) -> usize {
    walk(report).count()
}

/// Each node with its level below the root.
fn walk(root: &Report) -> impl Iterator<Item = (&Report, usize)> {
    let mut open = vec![(root, 0)];
    std::iter::from_fn(move || {
        let (report, level) = open.pop()?;
        open.extend(report.children.iter().rev().map(|child| (child, level + 1)));
        Some((report, level))
    })
}

fn row(report: &Report, name: String, scale: Duration) -> Vec<String> {
    let ms = |duration: Duration| format!("{:.2}", duration.as_millis_f64());
    vec![
        name,
        report.rack.clone(),
        if report.partitions.is_empty() { "relay".to_owned() } else { cut(report.partitions.to_string()) },
        ms(report.queue.into()),
        ms(report.local.into()),
        ms(report.reduce.into()),
        ms(report.wait.into()),
        ms(report.total.into()),
        bar(report, scale),
    ]
}

fn cut(text: String) -> String {
    if text.len() <= PARTITIONS_WIDTH_MAX {
        return text;
    }
    let end = text[..PARTITIONS_WIDTH_MAX - 1].rfind(',').unwrap_or(PARTITIONS_WIDTH_MAX - 1);
    format!("{}…", &text[..end])
}

/// Draws a node's bar.
///
/// Locals of several partitions run in parallel, so the parts may add up to more than the total; the bar is
/// cut at the width of the root's bar.
fn bar(report: &Report, scale: Duration) -> String {
    let parts = [(report.queue, '·'), (report.local, '█'), (report.reduce, '▓'), (report.wait, '░')];
    let columns = |duration: Duration| {
        let share = duration.as_nanos() as f64 / scale.as_nanos().max(1) as f64;
        ((share * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH)
    };
    let signs =
        parts.into_iter().flat_map(|(duration, sign)| std::iter::repeat_n(sign, columns(duration.into())));
    signs.take(BAR_WIDTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::PartitionSet;

    fn report(port: u16, partition: u32, total_ms: u64, children: Vec<Report>) -> Report {
        let total = Duration::from_millis(total_ms);
        Report {
            node: NodeId::new(([127, 0, 0, 1], port).into(), 1),
            rack: String::new(),
            partitions: PartitionSet::from_range(partition..partition + 1),
            queue: Duration::ZERO.into(),
            local: total.div(2).into(),
            reduce: Duration::ZERO.into(),
            wait: total.div(2).into(),
            total: total.into(),
            replaced: Vec::new(),
            children,
        }
    }

    #[test]
    fn a_tree_is_drawn_depth_first_with_bars_to_the_roots_scale() {
        let inner = report(2, 1, 8, vec![report(3, 2, 4, vec![])]);
        let root = report(1, 0, 16, vec![inner, report(4, 3, 2, vec![])]);
        let drawn = draw(&root, Style::PLAIN);
        let node = |line: &'_ str| line[..line.find("127.0.0.1:").unwrap() + "127.0.0.1:1".len()].to_owned();
        let nodes: Vec<String> = drawn.lines().skip(1).take(4).map(node).collect();
        assert_eq!(nodes, ["127.0.0.1:1", "├─ 127.0.0.1:2", "│  └─ 127.0.0.1:3", "└─ 127.0.0.1:4"]);
        let bars: Vec<usize> =
            drawn.lines().skip(1).take(4).map(|line| line.matches(['█', '░']).count()).collect();
        assert_eq!(bars, [32, 16, 8, 4]);
        assert_eq!((depth(&root), super::nodes(&root)), (2, 4));
    }

    #[test]
    fn nodes_in_whose_place_others_were_asked_are_named() {
        let mut root = report(1, 0, 16, vec![report(2, 1, 8, vec![])]);
        root.replaced = vec![NodeId::new(([127, 0, 0, 1], 3).into(), 1)];
        let drawn = draw(&root, Style::PLAIN);
        assert_eq!(drawn.lines().nth(3), Some("127.0.0.1:1 asked others in place of 127.0.0.1:3"));
    }

    #[test]
    fn long_lists_are_cut_at_a_comma() {
        assert_eq!(cut("0-3,7".into()), "0-3,7");
        assert_eq!(cut("10,20,30,40,50,60,70,80,90,100".into()), "10,20,30,40,50,60,70…");
    }
}

//! `treefold tree`: prints the tree that would be formed for given loads, costs and round trips.
//!
//! It uses the same function that forms the tree of a call, with the given figures. It shows the effect of a
//! shape, compares shapes, and helps to explain the tree of an earlier slow call.

use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use serde::Serialize;
use std::net::Ipv4Addr;
use treefold::{CallError, PartitionSet, Shape};
use treefold_core::id::NodeId;
use treefold_core::random::Random;
use treefold_core::tree::draw::Drawing;
use treefold_core::tree::makespan::ready_ms;
use treefold_core::tree::shape::{Candidate, form_with_delay};
use treefold_core::tree::{TREE_NODES_MAX, Tree};

/// Print the tree that would be formed for given loads, costs and round trips
///
/// Nodes are numbered from 0. The drawing shows node N as 10.0.0.N; it hosts partition N. Each node is shown
/// with its load and the time at which its partial, with its subtree folded in, would be ready if the cluster
/// had no other work.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TreeArgs {
    /// Shape of the tree: adaptive, earliest-ready, binomial, kary:K, chain, flat, base
    #[arg(long, value_name = "SHAPE", default_value = "adaptive", value_parser = shape)]
    shape: Shape,

    /// Number of nodes, all of them idle
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(TREE_NODES_MAX)))]
    #[arg(required_unless_present = "load", conflicts_with = "load")]
    nodes: Option<u32>,

    /// Loads of the nodes, separated by commas: milliseconds of work queued per processor
    #[arg(long, value_name = "MS,…", value_parser = parse::figures)]
    load: Option<Figures>,

    /// Duration of a local, in milliseconds: one figure for all nodes, or one for each
    #[arg(long, value_name = "MS[,…]", default_value = "25", value_parser = parse::figures)]
    local_ms: Figures,

    /// Duration of a reduction, in milliseconds: one figure for all nodes, or one for each
    #[arg(long, value_name = "MS[,…]", default_value = "5", value_parser = parse::figures)]
    reduce_ms: Figures,

    /// Round trip between any two nodes, in milliseconds: adaptive and earliest-ready trees are flatter over slow links
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = parse::millis)]
    round_trip_ms: f64,

    /// Seed of the choice among nodes with equal figures
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// Several figures in one argument.
type Figures = std::sync::Arc<[f64]>;

const EXAMPLES: &str = "\
Examples:
  treefold tree --nodes 16
  treefold tree --load 0,5,2,40,0,0 --local-ms 25 --reduce-ms 5
  treefold tree --nodes 16 --round-trip-ms 40
  treefold tree --nodes 16 --shape binomial -o json | jq .ready_ms";

/// A tree as printed in JSON.
#[derive(Serialize)]
struct Formed {
    shape: String,
    nodes: usize,
    /// Number of levels below the topmost.
    height: usize,
    /// Time at which the last of the caller's children has its partial ready.
    #[serde(serialize_with = "crate::output::rounded")]
    ready_ms: f64,
    trees: Vec<Node>,
}

#[derive(Serialize)]
struct Node {
    node: u32,
    #[serde(serialize_with = "crate::output::rounded")]
    load_ms: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    ready_ms: f64,
    children: Vec<Self>,
}

/// Parses a shape, and refuses shapes that are not formed from loads.
fn shape(text: &str) -> Result<Shape, CallError> {
    match parse::shape(text)? {
        Shape::Auto | Shape::OnPath(_) | Shape::Topology => {
            let allowed =
                "a shape that is formed from loads; on-path and topology are formed from the places of nodes";
            Err(CallError::bad_field("shape", text, allowed))
        }
        shape => Ok(shape),
    }
}

impl TreeArgs {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let candidates = self.candidates().map_err(Failure::Rejected)?;
        let trees = self.trees(&candidates);
        match format {
            Format::Json => print_json(&self.formed(&trees, &candidates)),
            Format::Text => print(self.drawn(&trees, &candidates, Style::of_stdout())),
        }
        Ok(Verdict::Full)
    }

    fn candidates(&self) -> Result<Vec<Candidate>, CallError> {
        let idle = vec![0.0; self.nodes.unwrap_or(0) as usize];
        let loads: &[f64] = self.load.as_deref().unwrap_or(&idle);
        if loads.len() > TREE_NODES_MAX as usize {
            return Err(CallError::bad_field(
                "load",
                format_args!("{} figures", loads.len()),
                TREE_NODES_MAX,
            ));
        }
        let of_node = |field: &str, figures: &Figures, at: usize| match figures.len() {
            1 => Ok(figures[0]),
            given if given == loads.len() => Ok(figures[at]),
            given => Err(CallError::bad_field(
                field,
                format_args!("{given} figures"),
                format_args!("one figure, or one for each of {} nodes", loads.len()),
            )),
        };
        let candidate = |(at, &load_ms)| {
            let local_ms = of_node("local_ms", &self.local_ms, at)?;
            let reduce_ms = of_node("reduce_ms", &self.reduce_ms, at)?;
            let number = at as u32;
            let partitions = PartitionSet::from_range(number..number + 1);
            Ok(Candidate { node: node_of(number), partitions, load_ms, local_ms, reduce_ms })
        };
        loads.iter().enumerate().map(candidate).collect()
    }

    fn trees(&self, candidates: &[Candidate]) -> Vec<Tree> {
        let mut random = Random::new(self.seed);
        form_with_delay(self.shape, candidates.to_vec(), self.round_trip_ms, &mut random)
    }

    fn formed(&self, trees: &[Tree], candidates: &[Candidate]) -> Formed {
        let formed: Vec<Node> =
            trees.iter().map(|tree| formed_node(tree, candidates, self.round_trip_ms)).collect();
        Formed {
            shape: self.shape.to_string(),
            nodes: candidates.len(),
            height: trees.iter().map(Tree::height).max().unwrap_or(0),
            ready_ms: formed.iter().map(|node| node.ready_ms).fold(0.0, f64::max),
            trees: formed,
        }
    }

    fn drawn(&self, trees: &[Tree], candidates: &[Candidate], style: Style) -> String {
        let formed = self.formed(trees, candidates);
        let heading = format!(
            "{}: {} nodes, height {}, ready after {:.1} ms",
            formed.shape, formed.nodes, formed.height, formed.ready_ms
        );
        let drawings = trees.iter().map(|tree| {
            let ready = ready_ms(tree, candidates, self.round_trip_ms);
            let note = |at: usize, seat: &treefold_core::tree::Seat| {
                let load = candidates[number_of(seat.node) as usize].load_ms;
                format!("load {load:.1} ms, ready after {:.1} ms", ready[at])
            };
            Drawing::annotated(tree, note).to_string()
        });
        style.bold(heading) + "\n" + drawings.collect::<String>().trim_end()
    }
}

/// Builds the nested form from the row of seats, children before their parents.
///
/// It does not recurse, so that a deep chain cannot overflow the stack.
fn formed_node(tree: &Tree, candidates: &[Candidate], round_trip_ms: f64) -> Node {
    let (seats, ready) = (tree.seats(), ready_ms(tree, candidates, round_trip_ms));
    let mut done: Vec<(usize, Node)> = Vec::new();
    for (at, seat) in seats.iter().enumerate().rev() {
        let end = at + seat.size as usize;
        let mut children = Vec::new();
        // The subtree built last is the first one in the row.
        while done.last().is_some_and(|&(place, _)| place < end) {
            children.extend(done.pop().map(|(_, child)| child));
        }
        let node = number_of(seat.node);
        let load_ms = candidates[node as usize].load_ms;
        done.push((at, Node { node, load_ms, ready_ms: ready[at], children }));
    }
    done.pop().expect("invariant: a tree has a seat").1
}

/// Returns the name of node `number` in a drawing.
fn node_of(number: u32) -> NodeId {
    let first = u32::from(Ipv4Addr::new(10, 0, 0, 0));
    NodeId::new((Ipv4Addr::from(first + number), 7700).into(), 1)
}

fn number_of(node: NodeId) -> u32 {
    match node.addr.ip() {
        std::net::IpAddr::V4(addr) => u32::from(addr) - u32::from(Ipv4Addr::new(10, 0, 0, 0)),
        std::net::IpAddr::V6(_) => unreachable!("invariant: node_of makes IPv4 addresses"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        tree: TreeArgs,
    }

    fn tree(arguments: &str) -> TreeArgs {
        Alone::try_parse_from(format!("tree {arguments}").split(' ')).unwrap().tree
    }

    fn json(arguments: &str) -> serde_json::Value {
        let tree = tree(arguments);
        let candidates = tree.candidates().unwrap();
        serde_json::to_value(tree.formed(&tree.trees(&candidates), &candidates)).unwrap()
    }

    #[test]
    fn a_tree_of_given_shape_holds_every_node_once() {
        let formed = json("--nodes 7 --shape kary:2");
        assert_eq!((formed["nodes"].as_u64(), formed["height"].as_u64()), (Some(7), Some(2)));
        let children = |node: &serde_json::Value| -> Vec<u64> {
            node["children"].as_array().unwrap().iter().map(|child| child["node"].as_u64().unwrap()).collect()
        };
        let root = &formed["trees"][0];
        assert_eq!(children(root), [1, 2]);
        assert_eq!(children(&root["children"][0]), [3, 4]);
        assert_eq!(children(&root["children"][1]), [5, 6]);
    }

    #[test]
    fn busy_node_gets_no_children() {
        let formed = json("--load 0,0,900,0");
        let busy = |node: &serde_json::Value| node["node"] == 2;
        let mut open = vec![&formed["trees"][0]];
        while let Some(node) = open.pop() {
            let children = node["children"].as_array().unwrap();
            assert!(!busy(node) || children.is_empty(), "{node}");
            open.extend(children);
        }
    }

    #[test]
    fn slow_links_make_a_flat_tree() {
        let height = |millis: u32| json(&format!("--nodes 24 --round-trip-ms {millis}"))["height"].as_u64();
        assert_eq!([0, 20, 200].map(height), [Some(4), Some(2), Some(1)]);
        assert!(Alone::try_parse_from(["tree", "--nodes", "3", "--round-trip-ms=-1"]).is_err());
    }

    #[test]
    fn figures_apply_to_all_nodes_or_one_to_each() {
        assert!(tree("--nodes 3 --local-ms 1,2,3").candidates().is_ok());
        let refused = tree("--nodes 3 --local-ms 1,2").candidates().unwrap_err().to_string();
        assert_eq!(refused, "local_ms is 2 figures; allowed: one figure, or one for each of 3 nodes");
    }
}

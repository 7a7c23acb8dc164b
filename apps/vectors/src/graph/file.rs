//! A graph on disk, so that a node that starts again need not build it.
//!
//! A file holds the digest of the rows and options that it was built from. It is checked as a whole when it
//! is read: lengths, levels, every link, and a checksum. A file that fails the check, or that another version
//! wrote, counts as absent. It is written beside its name and renamed, so no reader sees half of it.

use super::{Graph, LEVELS_MAX};
use std::fs;
use std::io;
use std::path::Path;

const MAGIC: &[u8; 8] = b"TFGRAPH1";
/// Magic, digest, rows, links, entry.
const HEADER_BYTES: usize = 8 + 8 + 4 + 4 + 4;
const CHECKSUM_BYTES: usize = 4;

/// Reads the graph of this digest over this number of rows. `None` if there is none.
pub(crate) fn read(path: &Path, digest: u64, rows: usize) -> Option<Graph> {
    decode(&fs::read(path).ok()?, digest, rows)
}

/// Writes a graph.
pub(crate) fn write(path: &Path, digest: u64, graph: &Graph) -> io::Result<()> {
    let next = path.with_extension(format!("next-{}", std::process::id()));
    fs::write(&next, encode(digest, graph))?;
    fs::rename(&next, path)
}

fn encode(digest: u64, graph: &Graph) -> Vec<u8> {
    let numbers = graph.base.len() + graph.upper.len();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + graph.levels.len() + 4 * numbers + CHECKSUM_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(digest.to_le_bytes());
    for number in [graph.levels.len() as u32, graph.links as u32, graph.entry] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(&graph.levels);
    bytes.extend(graph.base.iter().chain(&graph.upper).flat_map(|number| number.to_le_bytes()));
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], digest: u64, rows: usize) -> Option<Graph> {
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (magic, body_rest) = body.split_first_chunk::<8>()?;
    let (own_digest, body_rest) = body_rest.split_first_chunk::<8>()?;
    let (header, rest) = body_rest.split_first_chunk::<12>()?;
    let [own_rows, links, entry] =
        [0, 4, 8].map(|at| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    let is_known = magic == MAGIC && u64::from_le_bytes(*own_digest) == digest && own_rows as usize == rows;
    if !is_known || crc32c::crc32c(body) != u32::from_le_bytes(*checksum) || rest.len() < rows {
        return None;
    }
    let (levels, numbers) = rest.split_at(rows);
    if levels.iter().any(|level| *level > LEVELS_MAX) || !(1..=1 << 10).contains(&links) {
        return None;
    }
    let links = links as usize;
    let entries: usize = levels.iter().map(|level| usize::from(*level)).sum();
    let (base, upper) = (rows * (2 * links + 1), entries * (links + 1));
    let (numbers, []) = numbers.as_chunks::<4>() else { return None };
    if numbers.len() != base + upper {
        return None;
    }
    let mut graph = Graph::new(links, levels.to_vec());
    graph.entry = entry;
    let mut numbers = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes));
    graph.base.iter_mut().chain(&mut graph.upper).zip(&mut numbers).for_each(|(slot, number)| *slot = number);
    is_sound(&graph).then_some(graph)
}

/// True if every number of links is in its bounds, and every link leads to a row of its level.
fn is_sound(graph: &Graph) -> bool {
    let rows = graph.levels.len();
    let has_entry = rows == 0 || graph.levels.get(graph.entry as usize) == graph.levels.iter().max();
    has_entry
        && (0..rows as u32).all(|at| {
            (0..=graph.levels[at as usize]).all(|level| {
                let slot = graph.slot(at, level);
                (slot[0] as usize) < slot.len()
                    && graph.neighbours(at, level).iter().all(|&other| {
                        graph.levels.get(other as usize).is_some_and(|reached| *reached >= level)
                    })
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphOptions, build};
    use crate::metric::Metric;
    use crate::near::Space;

    fn graph() -> Graph {
        let values: Vec<f32> = (0..600).map(|at| ((at * 37) % 101) as f32).collect();
        let space = Space { metric: Metric::L2, dimensions: 2, values: &values };
        build(space, GraphOptions { links: 4, breadth: 10 }, &|_| {}).unwrap()
    }

    #[test]
    fn a_written_graph_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.graph");
        let graph = graph();
        assert!(graph.levels.iter().any(|level| *level > 1), "some rows are on upper levels");
        write(&path, 7, &graph).unwrap();
        assert_eq!(read(&path, 7, 300), Some(graph));
        assert_eq!((read(&path, 8, 300), read(&path, 7, 299)), (None, None), "of other rows");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(read(&directory.path().join("1.graph"), 7, 300), None);
    }

    #[test]
    fn damaged_graphs_count_as_absent() {
        let good = encode(7, &graph());
        for at in (0..good.len()).step_by(97) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(decode(&bad, 7, 300), None, "byte {at}");
            assert_eq!(decode(&good[..at], 7, 300), None, "cut at {at}");
        }
        // A valid checksum over links that lead nowhere.
        let mut wild = graph();
        wild.base[1] = 300;
        assert_eq!(decode(&encode(7, &wild), 7, 300), None);
        let mut wild = graph();
        wild.base[0] = 9;
        assert_eq!(decode(&encode(7, &wild), 7, 300), None);
    }
}

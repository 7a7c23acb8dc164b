//! Results that are read slice by slice: lines of one answer.

use crate::world::{JSON, World, options, request, rest, send};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::AsyncReadExt;
use treefold::operators::ready;
use treefold::{Node, OperatorError, Partition, Raw, Service, Slice, slice_range};
use treefold_gateway::Gateway;

pub const ROWS: usize = 400;
const PATH: &str = "/v1/call/rows/lines?deadline=20s&each&slices=";

/// A node with two partitions of rows, each as a line of `bytes` bytes. The parameters name a slice that fails.
pub async fn world(bytes: usize, made: &Arc<AtomicU32>) -> World {
    let made = Arc::clone(made);
    let lines = move |partition: &Partition, fails: &Option<u32>, slice: Slice| {
        made.fetch_add(1, Ordering::SeqCst);
        if *fails == Some(slice.index()) && partition.id == 1 {
            return Err(OperatorError::new("asked to fail"));
        }
        let line = |row: usize| format!("{row:0bytes$}\n");
        Ok(Raw(slice_range(ROWS, slice).map(line).collect::<String>().into()))
    };
    let lines = ready::sampled_in_slices("merge-lines", &(), lines).unwrap();
    let whole = ready::sampled("append", &(), |_: &Partition, (): &()| Ok(Raw("all".into()))).unwrap();
    let service = Service::new("rows").operator("lines", lines).operator("whole", whole).total(2);
    let node = Node::builder().service(service.partition(0, ()).partition(1, ())).start().await.unwrap();
    let gateway = Gateway::start(node.client(), options()).await.unwrap();
    World { node, gateway }
}

/// The status of an answer, and the lines of its body, which may come in chunks.
async fn call(world: &World, path: &str, params: &str) -> (u16, Vec<Value>) {
    let asked = request("POST", path, &[JSON, ("connection", "close")], params.as_bytes());
    let answer = rest(&mut send(world.addr(), &asked).await).await;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
    let mut left = &answer[end + 4..];
    let mut body = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        assert!(head.contains("content-type: application/x-ndjson"), "{head}");
        while let Some(at) = left.windows(2).position(|bytes| bytes == b"\r\n") {
            let length = usize::from_str_radix(std::str::from_utf8(&left[..at]).unwrap(), 16).unwrap();
            body.extend_from_slice(&left[at + 2..at + 2 + length]);
            left = &left[at + 2 + length + 2..];
        }
    } else {
        body.extend_from_slice(left);
    }
    let lines = std::str::from_utf8(&body).unwrap().lines();
    (head[9..12].parse().unwrap(), lines.map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The number of slices stands still once the buffers are full.
pub async fn until_some_are_held_up(made: &AtomicU32) {
    let still = async {
        loop {
            let before = made.load(Ordering::SeqCst);
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            if before == made.load(Ordering::SeqCst) {
                return before;
            }
        }
    };
    let made_by_then = tokio::time::timeout(crate::world::WITHIN, still).await.unwrap();
    assert!(made_by_then < 2 * ROWS as u32, "{made_by_then} slices were made");
}

#[tokio::test]
async fn slices_are_lines_and_the_outcome_is_the_last() {
    let world = world(4, &Arc::default()).await;
    for slices in [1, 8] {
        let (status, mut lines) = call(&world, &format!("{PATH}{slices}&window=2"), "null").await;
        assert_eq!(status, 200);
        let outcome = lines.pop().unwrap();
        assert_eq!(outcome["status"], "full", "{outcome}");
        assert_eq!(outcome["slices"], json!({"asked": slices, "taken": slices}));
        assert_eq!(outcome["coverage"], json!({"asked": 2, "contributed": 2}));
        let slice = |at: usize| {
            let rows = slice_range(ROWS, Slice::alone(at as u32, slices).unwrap());
            let value: String = rows.map(|row| format!("{row:04}\n{row:04}\n")).collect();
            json!({"slice": at, "value": treefold_forms::value::to_json(&bytes::Bytes::from(value))})
        };
        assert_eq!(lines, (0..slices as usize).map(slice).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn failures_are_problems_before_the_first_slice_and_lines_behind_it() {
    let world = world(4, &Arc::default()).await;
    let (status, problem) = call(&world, &format!("{PATH}8"), "0").await;
    assert_eq!((status, &problem[0]["type"]), (503, &json!("urn:treefold:problem:coverage")), "{problem:?}");
    let (status, lines) = call(&world, &format!("{PATH}8"), "5").await;
    assert_eq!((status, lines.len()), (200, 6));
    assert_eq!((&lines[5]["status"], &lines[5]["slices"]["taken"]), (&json!("insufficient"), &json!(5)));
    let (_, lines) = call(&world, &format!("{PATH}8&min_coverage=0.5"), "5").await;
    assert_eq!((lines.len(), &lines[8]["status"]), (9, &json!("partial")));
    assert_eq!(lines[8]["missing"][0]["detail"], "asked to fail");
    for (path, field) in [
        ("/v1/call/rows/whole?each&slices=2".to_owned(), "slices"),
        (format!("{PATH}2000000"), "slices"),
        (format!("{PATH}8&window=0"), "window"),
        (format!("{PATH}8&window=many"), "window"),
    ] {
        let (status, refused) = call(&world, &path, "null").await;
        assert_eq!((status, &refused[0]["field"]), (400, &json!(field)), "{path}: {refused:?}");
    }
}

#[tokio::test]
async fn client_that_does_not_read_holds_up_the_slices_and_one_that_leaves_cancels_them() {
    let made = Arc::default();
    let world = world(20_000, &made).await;
    // 16 MB, which no buffer on the way holds.
    let asked = request("POST", &format!("{PATH}{ROWS}"), &[JSON], b"null");
    let mut stream = send(world.addr(), &asked).await;
    let mut begin = [0; 1_000];
    stream.read_exact(&mut begin).await.unwrap();
    assert!(begin.starts_with(b"HTTP/1.1 200"));
    until_some_are_held_up(&made).await;
    drop(stream);
    world.until_open(0).await;
}

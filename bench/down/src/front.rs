//! The upper end of a stream: a node that sends packets, in the process that runs the trial.

use crate::endpoint::{SERVICE, limits};
use crate::pace::Pace;
use crate::peer::Peer;
use crate::trial::{Fault, Problem, TrialArgs};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use treefold::{Node, Shape, Stream, StreamSender, Synchronisation};

/// Time limit until all endpoints take part.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A front-end with an open stream, and the endpoints' processes.
pub(crate) struct Front {
    runtime: Runtime,
    _node: Node,
    stream: Stream,
    pub(crate) peers: Vec<Peer>,
}

impl Front {
    pub(crate) fn start(args: &TrialArgs) -> Result<Self, Problem> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let window_bytes = args.load.window_bytes;
        let node = runtime.block_on(Node::builder().cluster(limits(window_bytes)).start())?;
        let mut peers = Vec::new();
        for number in 0..args.endpoints {
            let mut words = vec!["endpoint".to_owned()];
            let flags = [
                ("--join", node.addr().to_string()),
                ("--number", number.to_string()),
                ("--of", args.endpoints.to_string()),
                ("--window-bytes", window_bytes.to_string()),
            ];
            words.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
            if number == 0 && args.load.fault == Fault::Slow {
                words.extend(["--slow-us".to_owned(), args.load.slow_us.to_string()]);
            }
            if args.load.in_task {
                words.push("--in-task".to_owned());
            }
            peers.push(Peer::start(&words)?);
        }
        let stream = runtime.block_on(async {
            if !node.members_at_least(args.endpoints as usize + 1, START_TIMEOUT).await {
                return Err(Problem::from("the endpoints' nodes did not join"));
            }
            let builder = node.client().stream(SERVICE).synchronisation(Synchronisation::DoNotWait);
            let mut builder = builder.shape(args.load.shape).window_bytes(window_bytes);
            if let Some(bytes) = args.load.lag_bytes {
                builder = builder.lag_bytes_max(bytes);
            }
            Ok(builder.open().await?)
        })?;
        if stream.endpoints().len() as u32 != args.endpoints {
            return Err(format!("only endpoints {} take part", stream.endpoints()).into());
        }
        Ok(Self { runtime, _node: node, stream, peers })
    }

    /// Sends packets in a thread of its own until `stop` is set.
    pub(crate) fn send(&self, args: &TrialArgs, stop: &Arc<AtomicBool>) -> JoinHandle<Result<(), String>> {
        let (sender, stop) = (self.stream.sender(), Arc::clone(stop));
        let (bytes, rate) = (args.bytes as usize, args.load.rate);
        let handle = self.runtime.handle().clone();
        std::thread::spawn(move || handle.block_on(send_all(&sender, bytes, rate, &stop)))
    }
}

async fn send_all(
    sender: &StreamSender,
    bytes: usize,
    rate: Option<f64>,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut pace = Pace::new(rate, stop);
    let blank = Bytes::from(vec![0; bytes]);
    while let Some(due_ns) = pace.next(|| {}) {
        let payload = if due_ns == 0 {
            blank.clone()
        } else {
            let mut payload = vec![0; bytes];
            payload[..8].copy_from_slice(&due_ns.to_le_bytes());
            payload.into()
        };
        sender.send(payload).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Parses the shape of a tree.
pub(crate) fn shape(word: &str) -> Result<Shape, String> {
    word.parse().map_err(|_| format!("expected a shape such as flat or kary:2, found {word:?}"))
}

//! A synchronisation of one's own: a wave goes up as soon as three fifths of its sources are in it.
//!
//! A stream that does not wait (`DoNotWait`) gives its filter each packet as it comes. The filter holds packets back until it has enough
//! of them, and passes on the others of that tag at once.
//!
//! ```text
//! cargo run --example quorum
//! ```

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Duration;
use treefold::endpoint::{Acceptor, accept};
use treefold::operators::Result;
use treefold::operators::filter::{Filter, FilterKind, Piece, Source, Wave};
use treefold::operators::packet::{Packet, Row};
use treefold::{Cluster, Service, Synchronisation};

const NODES: usize = 5;
const TURNS: usize = 3;
/// Tags that a filter remembers after it has sent them on.
const SENT_MAX: usize = 1_000;

/// Three of five sources are enough.
struct Quorum;

impl FilterKind for Quorum {
    fn open(&self, _: &Bytes) -> Result<Box<dyn Filter>> {
        Ok(Box::new(Waiting::default()))
    }
}

#[derive(Default)]
struct Waiting {
    sources: BTreeSet<Source>,
    /// The packets of each tag that has too few.
    held: BTreeMap<u64, Vec<Piece>>,
    /// The tags that had enough.
    sent: BTreeSet<u64>,
}

impl Filter for Waiting {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let mut pieces = self.held.remove(&wave.tag).unwrap_or_default();
        pieces.extend_from_slice(wave.pieces);
        if !self.sent.contains(&wave.tag) && 5 * pieces.len() < 3 * self.sources.len() {
            self.held.insert(wave.tag, pieces);
            return Ok(());
        }
        self.sent.insert(wave.tag);
        if self.sent.len() > SENT_MAX {
            self.sent.pop_first();
        }
        let mut sum = 0_i64;
        for piece in &pieces {
            sum += Packet::read(&piece.payload)?.i64(0)?;
        }
        out.push(Row::new().i64(sum).packet().into_bytes());
        Ok(())
    }

    // The nodes below keep what they have sent until it is in a packet that went up.
    fn holds_from(&self) -> Option<u64> {
        self.held.keys().next().copied()
    }

    fn joined(&mut self, source: Source) {
        self.sources.insert(source);
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        self.sources.remove(&lost);
        self.sources.extend(heirs);
        // The heirs send the packets of the lost source again.
        self.held.values_mut().for_each(|pieces| pieces.retain(|piece| piece.source != lost));
    }
}

/// Answers each packet with 1, except at one node, which never answers.
async fn answer(acceptor: Acceptor, node: usize) {
    while let Some(mut stream) = acceptor.accept().await {
        tokio::spawn(async move {
            while let Some(packet) = stream.recv().await {
                let one = Row::new().i64(1).packet().into_bytes();
                if node < NODES - 1 && stream.send_tagged(packet.tag, one).await.is_err() {
                    return; // the stream is over
                }
            }
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let (kinds, acceptors): (Vec<_>, Vec<_>) = (0..NODES).map(|_| accept()).unzip();
    for (node, acceptor) in acceptors.into_iter().enumerate() {
        tokio::spawn(answer(acceptor, node));
    }
    let service = move |node: usize| {
        let doors =
            Service::new("doors").endpoints([node as u32], kinds[node].clone()).filter("quorum", Quorum);
        vec![doors.total(NODES as u32)]
    };
    let cluster = Cluster::embedded(NODES).service(service).start().await?;

    let client = cluster.client(0);
    let stream = client.stream("doors").up_filter("doors/quorum").synchronisation(Synchronisation::DoNotWait);
    let mut stream = stream.open().await?;
    for _ in 0..TURNS {
        let tag = stream.send(Bytes::new()).await?;
        let mut sum = 0;
        // Every packet that the filter gets makes a wave: without packets while they are held, and after the quorum with one
        // packet each.
        while sum < 4 {
            let wave = tokio::time::timeout(Duration::from_secs(2), stream.wave()).await??;
            assert_eq!(wave.tag, tag, "an answer to an earlier question");
            let Some(packet) = wave.packets.first() else { continue };
            let is_first = sum == 0;
            sum += Packet::read(packet)?.i64(0)?;
            if is_first {
                println!("{sum} of {NODES} answered, which is enough");
            }
        }
    }
    stream.close();
    cluster.shutdown().await;
    Ok(())
}

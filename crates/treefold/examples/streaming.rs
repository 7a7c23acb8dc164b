//! A stream over four nodes: the front-end asks in turns, the endpoints answer, and the tree keeps the greatest value.
//!
//! ```text
//! cargo run --example streaming
//! ```

use bytes::Bytes;
use std::error::Error;
use std::time::Duration;
use treefold::endpoint::{Acceptor, accept};
use treefold::operators::packet::{Packet, Row};
use treefold::{Cluster, Service};

const NODES: usize = 4;
const TURNS: usize = 5;

/// Answers each packet with the temperature of this thermometer.
async fn measure(acceptor: Acceptor) {
    while let Some(mut stream) = acceptor.accept().await {
        tokio::spawn(async move {
            let mut degrees = 20.0 + f64::from(stream.opening().endpoint);
            while let Some(packet) = stream.recv().await {
                degrees += 0.5;
                let answer = Row::new().f64(degrees).packet().into_bytes();
                if stream.send_tagged(packet.tag, answer).await.is_err() {
                    return; // the stream is over
                }
            }
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (kinds, acceptors): (Vec<_>, Vec<_>) = (0..NODES).map(|_| accept()).unzip();
    acceptors.into_iter().for_each(|acceptor| drop(tokio::spawn(measure(acceptor))));
    let service = move |node: usize| {
        vec![Service::new("thermometers").endpoints([node as u32], kinds[node].clone()).total(NODES as u32)]
    };
    let cluster = Cluster::embedded(NODES).service(service).start().await?;

    let mut stream = cluster.client(0).stream("thermometers").up_filter("max").open().await?;
    for _ in 0..TURNS {
        stream.send(Bytes::new()).await?;
        let wave = tokio::time::timeout(Duration::from_secs(2), stream.wave()).await??;
        let warmest = Packet::read(&wave.packets[0])?.f64(0)?;
        println!("{} thermometers answered; the warmest shows {warmest}°", wave.contributors.len());
    }
    stream.close();
    cluster.shutdown().await;
    Ok(())
}

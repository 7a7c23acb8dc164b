//! A web server that calls a cluster: it answers with the value and says how complete it is.
//!
//! ```text
//! cargo run --example axum_client          # starts a cluster of its own, and prints its address
//! curl 'http://127.0.0.1:7870/matching/error'
//! ```

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::time::Duration;
use treefold::operators::merge::Count;
use treefold::operators::merging;
use treefold::{CallHandle, Client, Cluster, Error, Partition, Service};

const PARTITIONS: u32 = 4;

/// The state of the server, cheap to clone. One client serves all requests.
#[derive(Clone)]
struct Logs {
    client: Client,
    matching: CallHandle<String, Count>,
}

fn service() -> Service {
    let matching = merging("matching", |partition: &Partition, word: &String| {
        let lines = partition.data_as::<Vec<String>>()?;
        Ok(Count(lines.iter().filter(|line| line.contains(word)).count() as u64))
    });
    Service::new("logs").aggregation("matching", matching).total(PARTITIONS)
}

async fn matching(State(logs): State<Logs>, Path(word): Path<String>) -> Result<String, Response> {
    // If the browser goes away, axum drops this future, and the call is cancelled at every node.
    let call = logs.matching.call(&logs.client, &word);
    let reply = call
        .deadline(Duration::from_millis(200))
        .min_coverage(0.5)
        .await
        .map_err(|error| response_of(&error))?;
    let coverage = reply.coverage();
    let Count(lines) = reply.into_value().map_err(|error| response_of(&error))?;
    Ok(format!("{lines} lines in {:.0} % of the partitions\n", 100.0 * coverage))
}

fn response_of(error: &Error) -> Response {
    let status = match error {
        Error::InvalidParams { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{error}\n")).into_response()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lines = |node: usize| vec![format!("error: disk {node}"), "ready".to_owned()];
    let own = move |node: usize| vec![service().partition(node as u32, lines(node))];
    let cluster = Cluster::embedded(PARTITIONS as usize).service(own).start().await?;
    let logs = Logs { client: cluster.client(0), matching: service().handle("matching")? };

    let app = Router::new().route("/matching/{word}", get(matching)).with_state(logs);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:7870").await?;
    println!("http://{}/matching/error", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    cluster.shutdown().await;
    Ok(())
}

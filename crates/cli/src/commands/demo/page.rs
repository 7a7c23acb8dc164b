//! The demo's gateway: its page shows the cluster in a browser.

use crate::commands::node::gateway::{self, GatewayFile};
use crate::exit::Failure;
use treefold::Client;
use treefold_gateway::Gateway;

/// Default address of the page.
const ADDR: &str = "127.0.0.1:7780";
/// Takes any free port.
const ADDR_FREE: &str = "127.0.0.1:0";

/// Starts the gateway at an address. Without one it takes the default address, or any free port if that one is taken.
pub(super) async fn start(client: Client, given: Option<&str>) -> Result<Gateway, Failure> {
    if let Some(listen) = given {
        return start_at(client, listen).await;
    }
    match start_at(client.clone(), ADDR).await {
        Ok(gateway) => Ok(gateway),
        Err(_) => start_at(client, ADDR_FREE).await,
    }
}

async fn start_at(client: Client, listen: &str) -> Result<Gateway, Failure> {
    let is_insecure = false;
    let options = GatewayFile::at(listen).options(is_insecure).await?;
    gateway::start(client, options.expect("invariant: it has an address")).await
}

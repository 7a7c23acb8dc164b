//! Taking over a feed from its mirrors: by hand, or as a standby.

use crate::commands::failure_of;
use crate::commands::top::Endings;
use crate::exit::Failure;
use crate::parse;
use clap::Args;
use std::time::Duration;
use treefold::Client;
use treefold_feed::origin::StartError;
use treefold_feed::promotion::{check_standby, wait_for_silence, win};
use treefold_feed::{Origin, OriginOptions, TakeOver, TakeOverError};

/// Time between two tries of a standby that was not elected.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct TakeOverArgs {
    /// Take over from the mirrors of a feed whose origin is dead. First make sure that it is dead
    #[arg(long, conflicts_with = "standby")]
    take_over: bool,

    /// Wait until the mirrors of the feed hear nothing of its origin, and then take over. The feed needs three mirrors
    /// that keep their promises, and --copies of more than one
    #[arg(long)]
    standby: bool,

    /// Time without a sign of the origin after which a standby takes over
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse::duration)]
    silence: Duration,
}

impl TakeOverArgs {
    /// Starts the origin: anew, or in the place of one that has died.
    pub(super) async fn start(
        self,
        client: &Client,
        feed: &str,
        options: OriginOptions,
        endings: &mut Endings,
    ) -> Result<Origin, Failure> {
        let started = if self.take_over {
            Origin::take_over(client, feed, options, TakeOver::ByHand).await
        } else if self.standby {
            tokio::select! {
                started = stand_by(client, feed, options, self.silence) => started,
                () = endings.next() => return Err(Failure::failed("stopped while it stood by")),
            }
        } else {
            Origin::start(client, feed, options).await
        };
        started.map_err(|error| match error {
            StartError::Stream(error) | StartError::TakeOver(TakeOverError::Call(error)) => failure_of(error),
            error => Failure::failed(error.to_string()),
        })
    }
}

async fn stand_by(
    client: &Client,
    feed: &str,
    options: OriginOptions,
    silence: Duration,
) -> Result<Origin, StartError> {
    let (copies, epoch) = (options.copies, options.epoch);
    check_standby(client, feed, copies).await?;
    eprintln!("treefold: stands by for the origin of {feed}");
    loop {
        wait_for_silence(client, feed, copies, silence).await.map_err(TakeOverError::Call)?;
        match win(client, feed, copies, epoch, TakeOver::Automatic).await {
            Ok(won) => {
                eprintln!("treefold: takes over {feed} at {}", won.cut());
                return Origin::continue_from(client, feed, options, won).await;
            }
            Err(error) => eprintln!("treefold: does not take over yet: {error}"),
        }
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
}

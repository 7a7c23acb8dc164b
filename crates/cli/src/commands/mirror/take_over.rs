//! Taking over a feed from its mirrors: by hand, or as a standby.

use crate::commands::failure_of;
use crate::endings::Endings;
use crate::exit::Failure;
use crate::parse;
use clap::Args;
use std::time::Duration;
use treefold::Client;
use treefold_feed::origin::StartError;
use treefold_feed::promotion::{Won, check_standby, wait_for_silence, win};
use treefold_feed::{Origin, OriginOptions, TakeOver, TakeOverError};

/// Time between two tries of a standby that was not elected.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct TakeOverArgs {
    /// Take over from the mirrors of a feed whose origin is dead. First make sure that it is dead
    #[arg(long, conflicts_with = "standby")]
    take_over: bool,

    /// Take over although too few mirrors answer, because the others are dead for good. Loses acknowledged events that
    /// only they had. First stop the old origin and the mirrors that do not answer, wherever they run
    #[arg(long, requires = "take_over")]
    without_majority: bool,

    /// Wait until the mirrors of the feed hear nothing of its origin, and then take over. The feed needs three mirrors
    /// that keep their promises, and --copies of more than one
    #[arg(long)]
    standby: bool,

    /// Time without a sign of the origin after which a standby takes over
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse::duration)]
    silence: Duration,
}

impl TakeOverArgs {
    /// True for a standby, which waits and then has to win before it starts.
    pub(super) fn is_standby(&self) -> bool {
        self.standby
    }

    /// Waits as a standby until the origin is silent, and takes the mirrors' promises.
    pub(super) async fn win(
        &self,
        client: &Client,
        feed: &str,
        options: &OriginOptions,
        endings: &mut Endings,
    ) -> Result<Won, Failure> {
        tokio::select! {
            won = stand_by(client, feed, options, self.silence) => won.map_err(|error| failed(error.into())),
            () = endings.next() => Err(Failure::failed("stopped while it stood by")),
        }
    }

    /// Starts the origin: anew, or in the place of one that has died. `won` is that of a standby.
    pub(super) async fn start(
        self,
        client: &Client,
        feed: &str,
        options: OriginOptions,
        won: Option<Won>,
    ) -> Result<Origin, Failure> {
        let started = if self.without_majority {
            take_over(client, feed, options, TakeOver::WithoutMajority).await
        } else if self.take_over {
            take_over(client, feed, options, TakeOver::ByHand).await
        } else if let Some(won) = won {
            Origin::continue_from(client, feed, options, won).await
        } else {
            Origin::start(client, feed, options).await
        };
        started.map_err(failed)
    }
}

fn failed(error: StartError) -> Failure {
    match error {
        StartError::Stream(error) | StartError::TakeOver(TakeOverError::Call(error)) => failure_of(error),
        error => Failure::failed(error.to_string()),
    }
}

/// Takes over, and says so: with the promises of a majority of the mirrors, or of those that answer, however few they are.
async fn take_over(
    client: &Client,
    feed: &str,
    options: OriginOptions,
    how: TakeOver,
) -> Result<Origin, StartError> {
    // Before mirrors promise anything.
    options.check_empty_journal()?;
    let won = win(client, feed, options.copies, options.epoch, how).await?;
    if let TakeOver::WithoutMajority = how {
        crate::tell!(
            "treefold: takes over {feed} at {} from mirrors {:?} alone. Acknowledged events that only other mirrors had \
             are lost. An old origin that still runs may acknowledge events that are lost too, until it meets these \
             mirrors",
            won.cut(),
            won.promised()
        );
    } else {
        crate::tell!("treefold: takes over {feed} at {}", won.cut());
    }
    Origin::continue_from(client, feed, options, won).await
}

async fn stand_by(
    client: &Client,
    feed: &str,
    options: &OriginOptions,
    silence: Duration,
) -> Result<Won, TakeOverError> {
    let (copies, epoch) = (options.copies, options.epoch);
    check_standby(client, feed, copies).await?;
    crate::tell!("treefold: stands by for the origin of {feed}");
    loop {
        wait_for_silence(client, feed, copies, silence).await.map_err(TakeOverError::Call)?;
        match win(client, feed, copies, epoch, TakeOver::Automatic { silence }).await {
            Ok(won) => {
                crate::tell!("treefold: takes over {feed} at {}", won.cut());
                return Ok(won);
            }
            Err(error) => crate::tell!("treefold: does not take over yet: {error}"),
        }
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
}

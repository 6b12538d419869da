//! `reveille queue`: queues and their messages.

mod list;

use super::remote::Remote;
use crate::{config, error::Error};

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: config::QueueCommand) -> Result<(), Error> {
    match command {
        config::QueueCommand::List(args) => list::run(remote, args).await,
    }
}

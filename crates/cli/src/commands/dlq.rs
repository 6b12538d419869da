//! `reveille dlq`: dead letters.

mod list;
mod purge;
mod replay;

use super::remote::Remote;
use crate::{
    client::Route,
    config::remote::dlq::{Command, Filter},
    error::Error,
};

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::List(args) => list::run(remote, args).await,
        Command::Replay(args) => replay::run(remote, args).await,
        Command::Purge(args) => purge::run(remote, args).await,
    }
}

/// The dead letters of a filter.
fn route(filter: &Filter) -> Route {
    Route::new("/api/v1/dlq")
        .maybe("queue", filter.queue.as_ref())
        .maybe("partition", filter.partition.as_ref())
        .maybe("consumerGroup", filter.group.as_ref())
        .maybe("from", filter.from.as_ref())
        .maybe("to", filter.to.as_ref())
}

/// Rejects a change of everything that was not asked for by name.
fn bounded(is_everything: bool, all: bool) -> Result<(), Error> {
    match is_everything && !all {
        false => Ok(()),
        true => Err(Error::Input { what: "name a filter such as --queue, or --all for all dead letters".into() }),
    }
}

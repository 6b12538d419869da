//! `reveille dlq`: dead letters.

mod list;
mod one;
mod steps;

use super::remote::Remote;
use crate::{config::remote::dlq::Command, error::Error};

const REPLAY: steps::Steps = steps::Steps { route: "/v1/dead_letters/replay", done: "replayed", doing: "replaying" };
const PURGE: steps::Steps = steps::Steps { route: "/v1/dead_letters/purge", done: "deleted", doing: "deleting" };

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::List(args) => list::run(remote, args).await,
        Command::Show(args) => one::show(remote, args.number).await,
        Command::Replay(args) => match args.number {
            Some(number) => one::replay(remote, number, args.payload.as_deref()).await,
            None => steps::run(remote, REPLAY, &args.filter, args.all, args.confirmation).await,
        },
        Command::Purge(args) => match args.number {
            Some(number) => one::purge(remote, number, args.confirmation).await,
            None => steps::run(remote, PURGE, &args.filter, args.all, args.confirmation).await,
        },
    }
}

/// Rejects a change of everything that was not asked for by name.
fn bounded(is_everything: bool, all: bool) -> Result<(), Error> {
    match is_everything && !all {
        false => Ok(()),
        true => Err(Error::Input { what: "name a filter such as --queue, or --all for all dead letters".into() }),
    }
}

//! `reveille queue`: queues and their messages.

mod change;
mod configure;
pub(super) mod list;
mod messages;
mod peek;
mod pop;
mod push;
mod show;
mod tail;

use super::remote::Remote;
use crate::{config::remote::queue::Command, error::Error};

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::List(args) => list::run(remote, args).await,
        Command::Show(args) => show::run(remote, args).await,
        Command::Push(args) => push::run(remote, args).await,
        Command::Pop(args) => pop::run(remote, args).await,
        Command::Peek(args) => peek::run(remote, args).await,
        Command::Tail(args) => tail::run(remote, args).await,
        Command::Pause(args) => change::pause(remote, &args.queue, true).await,
        Command::Resume(args) => change::pause(remote, &args.queue, false).await,
        Command::Seek(args) => change::seek(remote, args).await,
        Command::Configure(args) => configure::run(remote, args).await,
        Command::Clear(args) => change::clear(remote, args).await,
        Command::Delete(args) => change::delete(remote, args).await,
    }
}

//! `reveille template`: templates of task graphs.

mod register;
mod show;

use super::remote::Remote;
use crate::{config::remote::template::Command, error::Error};

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::Check(args) => register::run(remote, &args.files, true).await,
        Command::Register(args) => register::run(remote, &args.files, false).await,
        Command::List(args) => show::list(remote, args).await,
        Command::Show(args) => show::one(remote, args).await,
    }
}

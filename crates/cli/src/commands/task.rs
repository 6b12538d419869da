//! `reveille task`: tasks of task graphs.

mod bulk;
mod change;
pub(super) mod graph;
pub(super) mod list;
mod show;
mod state;
mod step;
mod submit;
mod watch;

use super::remote::Remote;
use crate::{client::Route, config::remote::task::Command, error::Error};

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::Submit(args) => submit::run(remote, args).await,
        Command::List(args) => list::run(remote, args).await,
        Command::Show(args) => match &args.step {
            Some(step) => step::run(remote, &args.task, step).await,
            None => show::run(remote, &args.task, args.timeline).await,
        },
        Command::Watch(args) => watch::run(remote, &args.task).await,
        Command::Retry(args) => change::retry(remote, args).await,
        Command::Resolve(args) => change::resolve(remote, args).await,
        Command::Cancel(args) => change::cancel(remote, args).await,
        Command::Delete(args) => change::delete(remote, args).await,
    }
}

/// A task.
fn route(task: &str) -> Route {
    Route::new("/v1/tasks").name(task)
}

/// A step of a task.
fn step_route(task: &str, step: &str) -> Route {
    route(task).and("workflow_steps").name(step)
}

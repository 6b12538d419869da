//! `reveille durable`: orchestrations.

mod history;
mod import;
mod list;
mod message;
mod remove;
mod show;

use super::remote::Remote;
use crate::{
    client::Route,
    config::{self, Durable},
    error::Error,
    terminal::{Cell, Style},
};

/// Runs one of its commands.
pub(super) async fn run(settings: &config::Remote, command: Durable) -> Result<(), Error> {
    if let Durable::Import(args) = command {
        return Box::pin(import::run(args)).await;
    }
    let remote = Remote::new(settings)?;
    match command {
        Durable::Import(_) => Ok(()),
        Durable::List(args) => list::run(&remote, args).await,
        Durable::Show(args) => show::run(&remote, args).await,
        Durable::History(args) => history::run(&remote, args).await,
        Durable::Start(args) => message::start(&remote, args).await,
        Durable::Raise(args) => message::raise(&remote, args).await,
        Durable::Cancel(args) => message::cancel(&remote, args).await,
        Durable::Delete(args) => remove::delete(&remote, args).await,
        Durable::Prune(args) => Box::pin(remove::prune(&remote, args)).await,
    }
}

/// The route of an instance.
fn instance(id: &str) -> Route {
    Route::new("/v1/durable/instances").name(id)
}

/// The state of an instance.
fn status(name: &str) -> Cell {
    Cell::styled(name, style(name))
}

fn style(status: &str) -> Style {
    match status {
        "Completed" => Style::Good,
        "Failed" => Style::Bad,
        _ => Style::Busy,
    }
}

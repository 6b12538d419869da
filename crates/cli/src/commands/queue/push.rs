//! `reveille queue push`: one message, or a message per line.

mod item;
mod lines;

use serde::{Deserialize, Serialize};

use self::item::Item;
use crate::{
    client::Route,
    commands::{input, remote::Remote},
    config::remote::queue::Push,
    error::Error,
    terminal::printable,
};

/// A push.
#[derive(Serialize)]
struct Request<'a, T> {
    items: &'a [T],
}

/// What became of a message.
#[derive(Deserialize)]
struct Pushed {
    status: String,
    transaction_id: String,
    #[serde(default)]
    error: Option<String>,
}

pub(super) async fn run(remote: &Remote, args: Push) -> Result<(), Error> {
    match (&args.lines, &args.payload) {
        (Some(file), _) => lines::run(remote, &args, file).await,
        (None, payload) => one(remote, &args, payload.as_deref().unwrap_or_default()).await,
    }
}

fn route() -> Route {
    Route::new("/api/v1/push")
}

async fn one(remote: &Remote, args: &Push, payload: &str) -> Result<(), Error> {
    let text = input::text("the payload", payload).await?;
    let item = Item::of(args, &text, args.id.clone())
        .map_err(|reason| Error::Input { what: format!("the payload {reason}; --text pushes it as text") })?;
    let answer = remote.client.post(&route(), &Request { items: &[item] }).await?;
    let pushed: Vec<Pushed> = answer.json()?;
    if let Some(Pushed { error: Some(error), .. }) = pushed.first().filter(|pushed| pushed.status == "failed") {
        return Err(Error::Incomplete { what: format!("not pushed: {error}") });
    }
    let said = pushed.iter().map(|pushed| format!("{}  {}", pushed.status, printable(&pushed.transaction_id)));
    remote.changed(&answer, said.collect::<Vec<_>>().join("\n"))
}

//! One dead letter: showing it, replaying it, deleting it.

use serde::Serialize;
use serde_json::value::RawValue;

use super::list::Letter;
use crate::{
    client::Route,
    commands::{input, remote::Remote},
    config::remote::Confirmation,
    error::Error,
    terminal::{pretty, printable, when},
};

fn route(number: i64) -> Route {
    Route::new("/v1/dead_letters").name(number)
}

pub(super) async fn show(remote: &Remote, number: i64) -> Result<(), Error> {
    let answer = remote.client.get(&route(number)).await?;
    remote.show(&answer, |letter: Letter<'_>| {
        let text = |text: &str| printable(text).into_owned();
        let mut properties = vec![
            ("number", letter.id.to_string()),
            ("queue", text(&letter.queue)),
            ("partition", text(&letter.partition)),
            ("transaction", text(&letter.transaction_id)),
            ("group", text(&letter.group)),
            ("pushed", when(&letter.created_at)),
            ("failed", when(&letter.failed_at)),
            ("retries", letter.retries.to_string()),
        ];
        let optional = [
            ("error", &letter.error),
            ("producer", &letter.producer),
            ("trace", &letter.trace_id),
            ("unreadable", &letter.unreadable),
        ];
        properties.extend(optional.into_iter().filter_map(|(name, value)| Some((name, text(value.as_deref()?)))));
        remote.screen.properties(&properties)?;
        let Some(payload) = letter.payload else { return Ok(()) };
        remote.screen.line("")?;
        pretty(payload.get()).lines().try_for_each(|line| remote.screen.line(printable(line)))
    })
}

pub(super) async fn replay(remote: &Remote, number: i64, payload: Option<&str>) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Request {
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<Box<RawValue>>,
    }
    let payload = match payload {
        Some(payload) => Some(input::json("the payload", payload).await?),
        None => None,
    };
    let answer = remote.client.post(&route(number).and("replay"), &Request { payload }).await?;
    remote.changed(&answer, "replayed")
}

pub(super) async fn purge(remote: &Remote, number: i64, confirmation: Confirmation) -> Result<(), Error> {
    let answer = remote.client.get(&route(number)).await?;
    let letter: Letter<'_> = answer.json()?;
    let touches = format!("the dead letter {number} of {:?} will be deleted", letter.queue);
    remote.screen.confirm(printable(&touches), confirmation.yes).await?;
    let answer = remote.client.delete(&route(number)).await?;
    remote.changed(&answer, "deleted")
}

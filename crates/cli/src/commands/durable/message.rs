//! `reveille durable start`, `raise` and `cancel`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::instance;
use crate::{
    client::Route,
    commands::remote::Remote,
    config::{CancelInstance, RaiseEvent, StartInstance},
    error::Error,
    terminal::printable,
};

#[derive(Serialize)]
struct Start<'a> {
    instance: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct Raise<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    queue: bool,
}

#[derive(Serialize)]
struct Cancel<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Deserialize)]
struct Started {
    existed: bool,
    status: String,
}

pub(super) async fn start(remote: &Remote, args: StartInstance) -> Result<(), Error> {
    let body = Start {
        instance: &args.instance,
        name: &args.name,
        version: args.of_version.as_deref(),
        input: json("--input", args.input)?,
        text: args.text.as_deref(),
    };
    let answer = remote.client.post(&Route::new("/v1/durable/instances"), &body).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    let started: Started = answer.json()?;
    remote.screen.line(printable(&args.instance))?;
    if started.existed {
        remote.screen.note(format_args!("it had been started before and is {}", printable(&started.status)));
    }
    Ok(())
}

pub(super) async fn raise(remote: &Remote, args: RaiseEvent) -> Result<(), Error> {
    let body = Raise { data: json("--data", args.data)?, text: args.text.as_deref(), queue: args.queue };
    let route = instance(&args.instance).and("events").name(&args.event);
    let answer = remote.client.post(&route, &body).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    let (event, id) = (printable(&args.event), printable(&args.instance));
    remote.screen.line(format_args!("{event} was sent to {id}"))
}

pub(super) async fn cancel(remote: &Remote, args: CancelInstance) -> Result<(), Error> {
    let id = printable(&args.instance);
    let touches = format!("instance {id} will fail, and its activities and sub-orchestrations are cancelled");
    remote.screen.confirm(touches, args.confirmation.yes).await?;
    let route = instance(&args.instance).and("cancel");
    let answer = remote.client.post(&route, &Cancel { reason: args.reason.as_deref() }).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    remote.screen.line(format_args!("{id} was asked to end"))
}

/// An argument that is JSON, with all its digits.
fn json(flag: &str, text: Option<String>) -> Result<Option<Box<RawValue>>, Error> {
    let Some(text) = text else { return Ok(None) };
    let parsed = RawValue::from_string(text.trim().to_owned());
    parsed.map(Some).map_err(|error| Error::Input {
        what: format!("invalid value for {flag}: not JSON ({error}); --text sends the text itself"),
    })
}

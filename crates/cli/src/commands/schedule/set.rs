//! `reveille schedule set`, `pause`, `resume`, `run` and `delete`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Schedule, route};
use crate::{
    client::{Answer, Route},
    commands::{input, remote::Remote},
    config::remote::schedule::{Delete, Name, Set},
    error::Error,
    terminal::printable,
};

#[derive(Serialize)]
struct Request<'a> {
    namespace: &'a str,
    name: &'a str,
    template: &'a str,
    version: &'a str,
    priority: i16,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_seconds: Option<u32>,
}

/// Nothing: these routes take no body.
#[derive(Serialize)]
struct Empty {}

pub(super) async fn set(remote: &Remote, args: Set) -> Result<(), Error> {
    let context = match &args.context {
        Some(context) => Some(input::json("the context", context).await?),
        None => None,
    };
    let request = Request {
        namespace: &args.schedule.namespace,
        name: &args.schedule.name,
        template: &args.template,
        version: &args.template_version,
        priority: args.priority,
        tags: &args.tag,
        context,
        cron: args.cron.as_deref(),
        time_zone: args.time_zone.as_deref(),
        at: args.at.as_deref(),
        missed: args.missed.as_deref(),
        grace_seconds: args.grace_seconds,
    };
    next(remote, &remote.client.put(&Route::new("/v1/schedules"), &request).await?)
}

pub(super) async fn pause(remote: &Remote, schedule: &Name) -> Result<(), Error> {
    next(remote, &remote.client.post(&route(schedule).and("pause"), &Empty {}).await?)
}

pub(super) async fn resume(remote: &Remote, schedule: &Name) -> Result<(), Error> {
    next(remote, &remote.client.post(&route(schedule).and("resume"), &Empty {}).await?)
}

pub(super) async fn run_now(remote: &Remote, schedule: &Name) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Run {
        task_uuid: String,
    }
    let answer = remote.client.post(&route(schedule).and("run"), &Empty {}).await?;
    let Run { task_uuid } = answer.json()?;
    remote.changed(&answer, task_uuid)
}

pub(super) async fn delete(remote: &Remote, args: Delete) -> Result<(), Error> {
    let schedule: Schedule = remote.client.get(&route(&args.schedule).query("upcoming", 0)).await?.json()?;
    let touches = format!(
        "the schedule {}/{} ({}) of the template {} is deleted",
        schedule.namespace,
        schedule.name,
        schedule.times(),
        schedule.template
    );
    remote.screen.confirm(printable(&touches), args.confirmation.yes).await?;
    remote.client.delete(&route(&args.schedule)).await?;
    if remote.screen.is_json() { Ok(()) } else { remote.screen.line("deleted") }
}

/// When a schedule that was changed runs next.
fn next(remote: &Remote, answer: &Answer) -> Result<(), Error> {
    let schedule: Schedule = answer.json()?;
    remote.changed(answer, format_args!("next: {}", schedule.next()))
}

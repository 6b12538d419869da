//! `reveille dlq replay`.

use serde::{Deserialize, Serialize};

use super::bounded;
use crate::{
    client::Route,
    commands::remote::Remote,
    config::remote::dlq::{Filter, Replay},
    error::Error,
    terminal::count_of,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    queue: Option<&'a str>,
    partition: Option<&'a str>,
    consumer_group: Option<&'a str>,
    from: Option<&'a str>,
    to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter_ids: Option<&'a [i64]>,
    all: bool,
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Replayed {
    replayed: u64,
    kept: Vec<String>,
    kept_count: u64,
    would_replay: Option<u64>,
}

pub(super) async fn run(remote: &Remote, args: Replay) -> Result<(), Error> {
    bounded(args.filter.is_empty() && args.number.is_empty(), args.all)?;
    let Filter { queue, partition, group, from, to } = &args.filter;
    let request = |dry_run| Request {
        queue: queue.as_deref(),
        partition: partition.as_deref(),
        consumer_group: group.as_deref(),
        from: from.as_deref(),
        to: to.as_deref(),
        dead_letter_ids: (!args.number.is_empty()).then_some(&args.number),
        all: args.all,
        dry_run,
    };
    let route = Route::new("/api/v1/dlq/replay");
    let would: Replayed = remote.client.post(&route, &request(true)).await?.json()?;
    let count = would.would_replay.unwrap_or_default();
    if count == 0 {
        remote.screen.note("no dead letters match");
        return Ok(());
    }
    let touches = format!("{} will be pushed again", count_of(count, "dead letter"));
    remote.screen.confirm(touches, args.confirmation.yes).await?;
    let answer = remote.client.post(&route, &request(false)).await?;
    let replayed: Replayed = answer.json()?;
    remote.changed(&answer, format_args!("{} replayed", count_of(replayed.replayed, "dead letter")))?;
    match replayed.kept.first() {
        None => Ok(()),
        Some(why) => {
            let kept = count_of(replayed.kept_count, "dead letter");
            Err(Error::Incomplete { what: format!("{kept} not replayed, the first because: {why}") })
        }
    }
}

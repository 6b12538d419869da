//! `reveille group seek`, `subscribe` and `delete`.

use serde::{Deserialize, Serialize};

use crate::{
    client::Route,
    commands::remote::Remote,
    config::remote::{
        SeekTarget,
        group::{Delete, InQueue, Subscribe},
    },
    error::Error,
    terminal::{count_of, printable},
};

/// Moves a consumer group in a queue.
pub(in crate::commands) async fn seek(
    remote: &Remote,
    group: &str,
    queue: &str,
    target: &SeekTarget,
) -> Result<(), Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase", untagged)]
    enum Request<'a> {
        Time {
            timestamp: &'a str,
        },
        #[serde(rename_all = "camelCase")]
        End {
            to_end: bool,
        },
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Moved {
        partitions_updated: u64,
    }
    let mut route = Route::new("/api/v1/consumer-groups").name(group).and("queues").name(queue);
    if let Some(partition) = &target.partition {
        route = route.and("partitions").name(partition);
    }
    let request = match &target.to {
        Some(timestamp) => Request::Time { timestamp },
        None => Request::End { to_end: true },
    };
    let answer = remote.client.post(&route.and("seek"), &request).await?;
    let moved: Moved = answer.json()?;
    remote.changed(&answer, format_args!("moved in {}", count_of(moved.partitions_updated, "partition")))
}

/// Pauses or resumes a consumer group of a queue.
pub(super) async fn pause(remote: &Remote, args: &InQueue, paused: bool) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Empty {}
    let route = Route::new("/v1/queues").name(&args.queue).and("groups").name(&args.group);
    let answer = remote.client.post(&route.and(if paused { "pause" } else { "resume" }), &Empty {}).await?;
    remote.changed(&answer, if paused { "paused" } else { "resumed" })
}

pub(super) async fn subscribe(remote: &Remote, args: Subscribe) -> Result<(), Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Request<'a> {
        subscription_timestamp: &'a str,
    }
    #[derive(Deserialize)]
    struct Subscribed {
        queues: u64,
    }
    let route = Route::new("/api/v1/consumer-groups").name(&args.group).and("subscription");
    let answer = remote.client.post(&route, &Request { subscription_timestamp: &args.from }).await?;
    let subscribed: Subscribed = answer.json()?;
    remote.changed(&answer, format_args!("begins at {} in {}", args.from, count_of(subscribed.queues, "queue")))
}

pub(super) async fn delete(remote: &Remote, args: Delete) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Detail {
        queues: Vec<Held>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Held {
        queue_name: String,
        total_lag: u64,
    }
    #[derive(Deserialize)]
    struct Deleted {
        queues: u64,
    }
    let route = Route::new("/api/v1/consumer-groups").name(&args.group);
    let mut held: Detail = remote.client.get(&route).await?.json()?;
    if let Some(queue) = &args.queue {
        held.queues.retain(|held| held.queue_name == *queue);
    }
    let lag = held.queues.iter().map(|held| held.total_lag).sum();
    let touches = format!(
        "the position of the consumer group {:?} in {} is deleted; it has not consumed {}",
        args.group,
        count_of(held.queues.len() as u64, "queue"),
        count_of(lag, "message"),
    );
    remote.screen.confirm(printable(&touches), args.confirmation.yes).await?;
    let route = match &args.queue {
        Some(queue) => route.and("queues").name(queue),
        None => route,
    };
    let answer = remote.client.delete(&route.query("deleteMetadata", !args.keep_subscription)).await?;
    let deleted: Deleted = answer.json()?;
    remote.changed(&answer, format_args!("deleted in {}", count_of(deleted.queues, "queue")))
}

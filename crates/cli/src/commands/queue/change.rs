//! `reveille queue seek`, `clear` and `delete`.

use serde::{Deserialize, Serialize};

use super::show::{Queue, route};
use crate::{
    client::Route,
    commands::{group, remote::Remote},
    config::remote::queue::{Clear, Delete, Seek},
    error::Error,
    terminal::{count_of, printable},
};

pub(super) async fn seek(remote: &Remote, args: Seek) -> Result<(), Error> {
    let group = args.group.as_deref().unwrap_or(reveille_queue::QUEUE_MODE);
    group::seek(remote, group, &args.queue, &args.target).await
}

/// Pauses or resumes a queue.
pub(super) async fn pause(remote: &Remote, queue: &str, paused: bool) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Empty {}
    let route = Route::new("/v1/queues").name(queue).and(if paused { "pause" } else { "resume" });
    let answer = remote.client.post(&route, &Empty {}).await?;
    remote.changed(&answer, if paused { "paused" } else { "resumed" })
}

pub(super) async fn clear(remote: &Remote, args: Clear) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Cleared {
        messages: u64,
    }
    let queue = held(remote, &args.queue).await?;
    let touches = match &args.partition {
        Some(partition) => {
            format!("all messages of the partition {partition:?} of the queue {:?} are deleted", args.queue)
        }
        None => format!("{} of the queue {:?} are deleted", count_of(queue.messages.total, "message"), args.queue),
    };
    remote.screen.confirm(printable(&touches), args.confirmation.yes).await?;
    let route = Route::new("/api/v1/queues").name(&args.queue).and("clear").maybe("partition", args.partition.as_ref());
    let answer = remote.client.delete(&route).await?;
    let cleared: Cleared = answer.json()?;
    remote.changed(&answer, format_args!("{} deleted", count_of(cleared.messages, "message")))
}

pub(super) async fn delete(remote: &Remote, args: Delete) -> Result<(), Error> {
    let queue = held(remote, &args.queue).await?;
    let touches = format!(
        "the queue {:?} is deleted, with {} in {}, {} and {}",
        args.queue,
        count_of(queue.messages.total, "message"),
        count_of(queue.partition_count, "partition"),
        count_of(queue.consumer_groups.len() as u64, "consumer group"),
        count_of(queue.dead_letters, "dead letter"),
    );
    remote.screen.confirm(printable(&touches), args.confirmation.yes).await?;
    let answer = remote.client.delete(&route(&args.queue)).await?;
    remote.changed(&answer, "deleted")
}

/// What a queue holds.
async fn held(remote: &Remote, queue: &str) -> Result<Queue, Error> {
    Ok(remote.client.get(&route(queue).query("limit", 0)).await?.json()?)
}

//! `reveille group list`, `show` and `lagging`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Group;
use crate::{
    client::Route,
    commands::remote::Remote,
    config::remote::group::{Lagging, List, Show},
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, duration},
};

#[derive(Deserialize)]
struct Detail {
    queues: Vec<Group>,
    lagging: Vec<Partition>,
}

/// A partition with messages that a consumer group has not consumed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partition {
    consumer_group: String,
    queue_name: String,
    partition_name: String,
    offset_lag: u64,
    time_lag_seconds: f64,
    lease_expires_at: Option<String>,
    retry_count: u64,
}

pub(super) async fn list(remote: &Remote, args: List) -> Result<(), Error> {
    let none = "no consumer groups";
    let Some(queue) = args.queue else {
        let answer = remote.client.get(&Route::new("/api/v1/consumer-groups")).await?;
        return remote.show(&answer, |groups: Vec<Group>| remote.screen.table(&Group::table(&groups), none));
    };
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Queue<'a> {
        #[serde(borrow)]
        consumer_groups: &'a RawValue,
    }
    let route = Route::new("/api/v1/resources/queues").name(queue).query("limit", 0);
    let answer = remote.client.get(&route).await?;
    let Queue { consumer_groups } = answer.json()?;
    if remote.screen.is_json() {
        return remote.screen.json(consumer_groups.get());
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Groups {
        consumer_groups: Vec<Group>,
    }
    let groups: Groups = answer.json()?;
    remote.screen.table(&Group::table(&groups.consumer_groups), none)
}

pub(super) async fn one(remote: &Remote, args: Show) -> Result<(), Error> {
    let answer = remote.client.get(&Route::new("/api/v1/consumer-groups").name(&args.group)).await?;
    remote.show(&answer, |detail: Detail| {
        remote.screen.table(&Group::table(&detail.queues), "it reads no queue")?;
        if detail.lagging.is_empty() {
            return Ok(());
        }
        remote.screen.line("")?;
        remote.screen.table(&partitions(&detail.lagging), "")
    })
}

pub(super) async fn lagging(remote: &Remote, args: Lagging) -> Result<(), Error> {
    let route = Route::new("/api/v1/consumer-groups/lagging").query("minLagSeconds", args.seconds);
    let answer = remote.client.get(&route).await?;
    let none = format!("no message has waited for {}", seconds(args.seconds.into()));
    remote.show(&answer, |found: Vec<Partition>| remote.screen.table(&partitions(&found), &none))
}

fn partitions(found: &[Partition]) -> Table {
    let mut table = Table::new([
        Column::id("group"),
        Column::id("queue"),
        Column::id("partition"),
        Column::number("lag"),
        Column::text("oldest"),
        Column::text("lease ends"),
        Column::number("retries"),
    ]);
    for partition in found {
        let retries = if partition.retry_count > 0 { Style::Bad } else { Style::Dim };
        table.row([
            partition.consumer_group.as_str().into(),
            partition.queue_name.as_str().into(),
            partition.partition_name.as_str().into(),
            Cell::count(partition.offset_lag),
            seconds(partition.time_lag_seconds).into(),
            Cell::maybe(partition.lease_expires_at.as_deref().map(ago)),
            Cell::styled(partition.retry_count, retries),
        ]);
    }
    table
}

/// An age.
pub(super) fn seconds(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

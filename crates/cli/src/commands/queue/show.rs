//! `reveille queue show`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    client::Route,
    commands::{group::Group, remote::Remote},
    config::remote::queue::Show,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, printable, when},
};

/// A queue, as the server describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Queue {
    name: String,
    namespace: String,
    task: String,
    created_at: String,
    options: BTreeMap<String, Value>,
    pub(super) messages: Counts,
    pub(super) dead_letters: u64,
    pub(super) partition_count: u64,
    pub(super) consumer_groups: Vec<Group>,
    partitions: Vec<Partition>,
}

/// How many messages a queue has.
#[derive(Deserialize)]
pub(super) struct Counts {
    pub(super) total: u64,
    pending: u64,
    processing: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partition {
    name: String,
    messages: u64,
    last_push_at: Option<String>,
    cursors: Vec<Cursor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cursor {
    consumer_group: String,
    lag: u64,
    leased_messages: u64,
    lease_expires_at: Option<String>,
    due_at: Option<String>,
    retry_count: u64,
}

pub(super) fn route(queue: &str) -> Route {
    Route::new("/api/v1/resources/queues").name(queue)
}

pub(super) async fn run(remote: &Remote, args: Show) -> Result<(), Error> {
    let route = route(&args.queue).maybe("partition", args.partition.as_ref());
    let answer = remote.client.get(&route.query("limit", args.limit).query("offset", args.offset)).await?;
    remote.show(&answer, |queue: Queue| {
        let screen = &remote.screen;
        let Counts { total, pending, processing } = queue.messages;
        let options = queue.options.iter().map(|(name, value)| format!("{name}={value}"));
        screen.properties(&[
            ("queue", printable(&queue.name).into_owned()),
            ("namespace", printable(&queue.namespace).into_owned()),
            ("task", printable(&queue.task).into_owned()),
            ("created", when(&queue.created_at)),
            ("messages", format!("{total}, {pending} pending, {processing} leased")),
            ("dead letters", queue.dead_letters.to_string()),
            ("options", options.collect::<Vec<_>>().join(" ")),
        ])?;
        if !queue.consumer_groups.is_empty() {
            screen.line("")?;
            screen.table(&Group::table(&queue.consumer_groups).without("queue"), "")?;
        }
        if !queue.partitions.is_empty() {
            screen.line("")?;
            screen.table(&partitions(&queue.partitions), "")?;
        }
        if args.partition.is_none() {
            remote.more(args.offset, queue.partitions.len(), queue.partition_count);
        }
        Ok(())
    })
}

/// A row for each consumer group of each partition.
fn partitions(partitions: &[Partition]) -> Table {
    let mut table = Table::new([
        Column::id("partition"),
        Column::number("messages"),
        Column::text("last push"),
        Column::text("group"),
        Column::number("lag"),
        Column::number("leased"),
        Column::text("lease ends"),
        Column::text("due"),
        Column::number("retries"),
    ]);
    for partition in partitions {
        let mut first = [
            partition.name.as_str().into(),
            Cell::count(partition.messages),
            Cell::maybe(partition.last_push_at.as_deref().map(ago)),
        ];
        if partition.cursors.is_empty() {
            let [name, messages, pushed] = first.clone();
            let none = || Cell::maybe(None::<u8>);
            table.row([name, messages, pushed, none(), none(), none(), none(), none(), none()]);
        }
        for cursor in &partition.cursors {
            let [name, messages, pushed] = std::mem::take(&mut first);
            let retries = if cursor.retry_count > 0 { Style::Bad } else { Style::Dim };
            table.row([
                name,
                messages,
                pushed,
                cursor.consumer_group.as_str().into(),
                Cell::count(cursor.lag),
                Cell::count(cursor.leased_messages),
                Cell::maybe(cursor.lease_expires_at.as_deref().map(ago)),
                Cell::maybe(cursor.due_at.as_deref().map(ago)),
                Cell::styled(cursor.retry_count, retries),
            ]);
        }
    }
    table
}

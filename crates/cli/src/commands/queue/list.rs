//! `reveille queue list`.

use serde::Deserialize;

use crate::{
    client::Route,
    commands::remote::Remote,
    config::QueueList,
    error::Error,
    terminal::{Cell, Column, Table, ago},
};

#[derive(Deserialize)]
struct Listed {
    queues: Vec<Queue>,
    total: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    name: String,
    created_at: String,
    partitions: u64,
    messages: Counts,
}

#[derive(Deserialize)]
pub(super) struct Counts {
    pub(super) total: u64,
    pub(super) pending: u64,
    pub(super) processing: u64,
}

pub(super) async fn run(remote: &Remote, args: QueueList) -> Result<(), Error> {
    let route = Route::new("/api/v1/resources/queues").maybe("search", args.search);
    let answer = remote.client.get(&route.query("limit", args.limit).query("offset", args.offset)).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    let listed: Listed = answer.json()?;
    let mut table = Table::new([
        Column::id("queue"),
        Column::number("partitions"),
        Column::number("messages"),
        Column::number("pending"),
        Column::number("leased"),
        Column::text("created"),
    ]);
    for queue in &listed.queues {
        let Counts { total, pending, processing } = queue.messages;
        table.row([
            queue.name.as_str().into(),
            Cell::count(queue.partitions),
            Cell::count(total),
            Cell::count(pending),
            Cell::count(processing),
            ago(&queue.created_at).into(),
        ]);
    }
    remote.screen.table(&table, "no queues")?;
    remote.more(args.offset, listed.queues.len(), listed.total);
    Ok(())
}

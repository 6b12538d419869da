//! `reveille queue list`.

use serde::Deserialize;

use crate::{
    client::{self, Answer, Route},
    commands::remote::Remote,
    config::remote::queue::List,
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

pub(super) async fn run(remote: &Remote, args: List) -> Result<(), Error> {
    let route = Route::new("/api/v1/resources/queues").maybe("search", args.search);
    let answer = remote.client.get(&route.query("limit", args.limit).query("offset", args.offset)).await?;
    remote.show(&answer, |listed: Listed| {
        remote.screen.table(&listed.table(), "no queues")?;
        remote.more(args.offset, listed.queues.len(), listed.total);
        Ok(())
    })
}

/// The table of an answer.
pub(in crate::commands) fn table(answer: &Answer) -> Result<Table, client::Error> {
    Ok(answer.json::<Listed>()?.table())
}

impl Listed {
    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::id("queue"),
            Column::number("partitions"),
            Column::number("messages"),
            Column::number("pending"),
            Column::number("leased"),
            Column::text("created"),
        ]);
        for queue in &self.queues {
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
        table
    }
}

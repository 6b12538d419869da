//! `reveille dlq list`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::route;
use crate::{
    commands::remote::Remote,
    config::remote::dlq::List,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, compact},
};

#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(borrow)]
    messages: Vec<Letter<'a>>,
    total: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Letter<'a> {
    dead_letter_id: i64,
    queue: String,
    partition: String,
    transaction_id: String,
    consumer_group: String,
    failed_at: String,
    retry_count: u64,
    error_message: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

pub(super) async fn run(remote: &Remote, args: List) -> Result<(), Error> {
    let route = route(&args.filter).query("limit", args.limit).query("offset", args.offset);
    let answer = remote.client.get(&route).await?;
    remote.show(&answer, |listed: Listed<'_>| {
        let mut table = Table::new([
            Column::number("number"),
            Column::text("queue"),
            Column::text("partition"),
            Column::text("transaction"),
            Column::text("group"),
            Column::text("failed"),
            Column::number("retries"),
            Column::text("error"),
            Column::text("payload"),
        ]);
        for letter in &listed.messages {
            table.row([
                letter.dead_letter_id.to_string().into(),
                letter.queue.as_str().into(),
                letter.partition.as_str().into(),
                letter.transaction_id.as_str().into(),
                letter.consumer_group.as_str().into(),
                ago(&letter.failed_at).into(),
                Cell::count(letter.retry_count),
                Cell::styled(letter.error_message.as_deref().unwrap_or_default(), Style::Bad),
                Cell::maybe(letter.data.map(|data| compact(data.get()))),
            ]);
        }
        remote.screen.table(&table, "no dead letters")?;
        remote.more(args.offset, listed.messages.len(), listed.total);
        Ok(())
    })
}

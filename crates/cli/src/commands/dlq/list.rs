//! `reveille dlq list`.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    client::Route,
    commands::remote::Remote,
    config::remote::dlq::List,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, compact},
};

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    dead_letters: Vec<Letter<'a>>,
    next: Option<i64>,
}

/// A dead letter.
#[derive(Deserialize)]
pub(super) struct Letter<'a> {
    pub(super) id: i64,
    pub(super) queue: String,
    pub(super) partition: String,
    pub(super) transaction_id: String,
    pub(super) group: String,
    pub(super) failed_at: String,
    pub(super) created_at: String,
    pub(super) retries: u64,
    pub(super) error: Option<String>,
    pub(super) producer: Option<String>,
    pub(super) trace_id: Option<String>,
    #[serde(default, borrow)]
    pub(super) payload: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) unreadable: Option<String>,
}

pub(super) async fn run(remote: &Remote, args: List) -> Result<(), Error> {
    let route = Route::new("/v1/dead_letters")
        .maybe("queue", args.filter.queue)
        .maybe("partition", args.filter.partition)
        .maybe("group", args.filter.group)
        .maybe("error", args.filter.error)
        .maybe("from", args.filter.from)
        .maybe("to", args.filter.to);
    let answer = remote.client.get(&route.query("limit", args.limit).maybe("after", args.after)).await?;
    remote.show(&answer, |page: Page<'_>| {
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
        for letter in &page.dead_letters {
            table.row([
                letter.id.to_string().into(),
                letter.queue.as_str().into(),
                letter.partition.as_str().into(),
                letter.transaction_id.as_str().into(),
                letter.group.as_str().into(),
                ago(&letter.failed_at).into(),
                Cell::count(letter.retries),
                Cell::styled(letter.error.as_deref().unwrap_or_default(), Style::Bad),
                Cell::maybe(letter.payload.map(|payload| compact(payload.get()))),
            ]);
        }
        remote.screen.table(&table, "no dead letters")?;
        remote.next(page.next.map(|next| next.to_string()).as_deref());
        Ok(())
    })
}

//! Messages that are read without leasing them: `reveille queue peek` and `tail`.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    client::{Answer, Route},
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, compact},
};

/// A page of messages.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(default)]
    pub(super) next: Option<String>,
}

/// A message, and its text as the server sent it.
pub(super) struct Message<'a> {
    pub(super) raw: &'a RawValue,
    pub(super) fields: Fields<'a>,
}

/// What is shown of a message.
#[derive(Deserialize)]
pub(super) struct Fields<'a> {
    pub(super) transaction_id: String,
    pub(super) partition: String,
    pub(super) partition_id: String,
    pub(super) offset: i64,
    pub(super) created_at: String,
    status: String,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    unreadable: Option<String>,
}

/// The messages of a queue, newest first, with payloads.
pub(super) fn route(queue: &str) -> Route {
    Route::new("/v1/queues").name(queue).and("messages")
}

/// Reads a page.
pub(super) fn read(answer: &Answer) -> Result<(Vec<Message<'_>>, Option<String>), Error> {
    let page: Page<'_> = answer.json()?;
    let parsed = page.messages.into_iter().map(|raw| Ok(Message { raw, fields: answer.part(raw)? }));
    Ok((parsed.collect::<Result<_, Error>>()?, page.next))
}

impl Fields<'_> {
    /// The payload, or why there is none.
    pub(super) fn payload(&self) -> Cell {
        match (self.payload, &self.unreadable) {
            (Some(payload), _) => compact(payload.get()).into(),
            (None, Some(why)) => Cell::styled(why, Style::Dim),
            (None, None) => Cell::maybe(None::<u8>),
        }
    }
}

/// A row for each message.
pub(super) fn table(messages: &[Message<'_>]) -> Table {
    let mut table = Table::new([
        Column::text("partition"),
        Column::id("transaction"),
        Column::text("pushed"),
        Column::text("status"),
        Column::text("payload"),
    ]);
    for Message { fields, .. } in messages {
        let style = match fields.status.as_str() {
            "processing" => Style::Busy,
            "completed" => Style::Dim,
            _ => Style::Plain,
        };
        table.row([
            fields.partition.as_str().into(),
            fields.transaction_id.as_str().into(),
            ago(&fields.created_at).into(),
            Cell::styled(&fields.status, style),
            fields.payload(),
        ]);
    }
    table
}

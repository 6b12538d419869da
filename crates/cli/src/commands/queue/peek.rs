//! `reveille queue peek`.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    client::{self, Route},
    commands::remote::Remote,
    config::remote::queue::Peek,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, compact},
};

#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    transaction_id: String,
    partition: String,
    partition_id: String,
    status: String,
    created_at: String,
}

#[derive(Deserialize)]
struct Detail<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

pub(super) async fn run(remote: &Remote, args: Peek) -> Result<(), Error> {
    let route = Route::new("/api/v1/messages")
        .query("queue", &args.queue)
        .maybe("partition", args.partition.as_ref())
        .maybe("status", args.status.as_ref())
        .maybe("from", args.from.as_ref())
        .maybe("to", args.to.as_ref());
    let answer = remote.client.get(&route.query("limit", args.limit)).await?;
    let listed: Listed<'_> = answer.json()?;
    let mut table = Table::new([
        Column::text("partition"),
        Column::id("transaction"),
        Column::text("pushed"),
        Column::text("status"),
        Column::text("payload"),
    ]);
    for raw in listed.messages {
        let message: Message = serde_json::from_str(raw.get())
            .map_err(|source| client::Error::Unreadable { server: remote.client.address().to_string(), source })?;
        let Some(payload) = payload(remote, &args, &message, raw).await? else { continue };
        let style = match message.status.as_str() {
            "processing" => Style::Busy,
            "completed" => Style::Dim,
            _ => Style::Plain,
        };
        table.row([
            message.partition.as_str().into(),
            message.transaction_id.as_str().into(),
            ago(&message.created_at).into(),
            Cell::styled(&message.status, style),
            payload,
        ]);
    }
    if remote.screen.is_json() { Ok(()) } else { remote.screen.table(&table, "no messages") }
}

/// The payload of a message, which is a request of its own; for programs the message is printed with it. `None`: it was
/// deleted meanwhile.
async fn payload(remote: &Remote, args: &Peek, message: &Message, raw: &RawValue) -> Result<Option<Cell>, Error> {
    if args.no_payload {
        if remote.screen.is_json() {
            remote.screen.json_line(raw.get())?;
        }
        return Ok(Some(Cell::maybe(None::<u8>)));
    }
    let route = Route::new("/api/v1/messages").name(&message.partition_id).name(&message.transaction_id);
    let answer = match remote.client.get(&route).await {
        Err(client::Error::NotFound { .. }) => return Ok(None),
        answer => answer?,
    };
    if remote.screen.is_json() {
        remote.screen.json_line(answer.text())?;
        return Ok(Some(Cell::default()));
    }
    let detail: Detail<'_> = answer.json()?;
    Ok(Some(Cell::maybe(detail.data.map(|data| compact(data.get())))))
}

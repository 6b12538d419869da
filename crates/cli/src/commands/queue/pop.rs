//! `reveille queue pop`.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    client::{Answer, Route},
    commands::remote::Remote,
    config::remote::queue::Pop,
    error::Error,
    terminal::{Cell, Column, Table, ago, compact, count_of},
};

/// The longest wait of one request. A longer one is repeated, so that proxies keep the connection.
const WAIT_MAX: Duration = Duration::from_secs(50);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Popped<'a> {
    lease_id: &'a str,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    transaction_id: String,
    partition: String,
    partition_id: String,
    created_at: String,
    retry_count: u64,
    producer_sub: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ack<'a> {
    transaction_id: &'a str,
    partition_id: &'a str,
    lease_id: &'a str,
    status: &'static str,
}

#[derive(Deserialize)]
struct Acked {
    success: bool,
    error: Option<String>,
}

pub(super) async fn run(remote: &Remote, args: Pop) -> Result<(), Error> {
    let answer = pop(remote, &args).await?;
    if answer.is_empty() {
        return Err(Error::Incomplete { what: "no messages".into() });
    }
    let popped: Popped<'_> = answer.json()?;
    if remote.screen.is_json() {
        remote.screen.json(answer.text())?;
    } else {
        print(remote, &popped)?;
    }
    if args.ack { ack(remote, &popped).await } else { Ok(()) }
}

/// One pop, or pops until there are messages or the time is over. The answer without messages is empty.
async fn pop(remote: &Remote, args: &Pop) -> Result<Answer, Error> {
    let mut route = Route::new("/api/v1/pop/queue").name(&args.queue);
    if let Some(partition) = &args.partition {
        route = route.and("partition").name(partition);
    }
    let route = route
        .query("batch", args.batch)
        .query("partitions", args.partitions)
        .maybe("consumerGroup", args.group.as_ref())
        .maybe("subscriptionFrom", args.from.as_ref());
    let Some(wait) = args.wait else { return Ok(remote.client.get(&route).await?) };
    let began = Instant::now();
    loop {
        // Zero means without end.
        let left = if wait.is_zero() { WAIT_MAX } else { wait.saturating_sub(began.elapsed()) };
        let timeout = left.min(WAIT_MAX);
        let route = route.clone().query("wait", true).query("timeout", timeout.as_millis());
        let asked = Instant::now();
        let answer = remote.client.get_waiting(&route).await?;
        if !answer.is_empty() || timeout == left && !wait.is_zero() {
            return Ok(answer);
        }
        // A server that stops answers at once.
        tokio::time::sleep(timeout.saturating_sub(asked.elapsed()).min(Duration::from_secs(1))).await;
    }
}

fn print(remote: &Remote, popped: &Popped<'_>) -> Result<(), Error> {
    let mut table = Table::new([
        Column::text("partition"),
        Column::id("transaction"),
        Column::text("pushed"),
        Column::number("retries"),
        Column::text("producer"),
        Column::text("payload"),
    ]);
    for message in &popped.messages {
        table.row([
            message.partition.as_str().into(),
            message.transaction_id.as_str().into(),
            ago(&message.created_at).into(),
            Cell::count(message.retry_count),
            Cell::maybe(message.producer_sub.as_deref()),
            compact(message.data.get()).into(),
        ]);
    }
    remote.screen.table(&table, "no messages")
}

/// Acknowledges what was printed. What was printed and not acknowledged is delivered again.
async fn ack<'a>(remote: &Remote, popped: &'a Popped<'a>) -> Result<(), Error> {
    #[derive(Serialize)]
    struct Batch<'a> {
        acknowledgments: Vec<Ack<'a>>,
    }
    let ack = |message: &'a Message<'_>| Ack {
        transaction_id: &message.transaction_id,
        partition_id: &message.partition_id,
        lease_id: popped.lease_id,
        status: "completed",
    };
    let acknowledgments = popped.messages.iter().map(ack).collect();
    let answer = remote.client.post(&Route::new("/api/v1/ack/batch"), &Batch { acknowledgments }).await?;
    let rejected: Vec<Acked> = answer.json::<Vec<Acked>>()?.into_iter().filter(|acked| !acked.success).collect();
    match rejected.first() {
        None => Ok(()),
        Some(first) => {
            let why = first.error.as_deref().unwrap_or("no reason was given");
            let what = format!(
                "{} not acknowledged, and will be delivered again: {why}",
                count_of(rejected.len() as u64, "message")
            );
            Err(Error::Incomplete { what })
        }
    }
}

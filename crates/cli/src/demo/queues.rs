//! Producers and consumers: orders that one group bills at once and another reads slowly, and mails that now and then
//! cannot be delivered.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::{Client, Error, Route};

const ORDERS: &str = "demo.orders";
const MAILS: &str = "demo.mails";

/// Messages a second: enough to see rates, too few to heat a laptop.
const BETWEEN_ORDERS: Duration = Duration::from_millis(400);
/// The auditor needs this long for each order, so that it lags.
const AUDIT_TIME: Duration = Duration::from_secs(2);
/// In how many mails each kind of failure happens.
const MAILS_ROUND: u64 = 12;
/// How long messages are kept, so that a demo that runs for days stays small.
const KEEP_SECONDS: u32 = 3_600;

const CUSTOMERS: [&str; 6] = ["ada", "bo", "cy", "di", "ed", "fay"];

/// The response of a pop.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Popped {
    lease_id: String,
    partition_id: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    transaction_id: String,
    trace_id: Option<String>,
    data: Value,
}

/// Creates the queues. Repeating it changes nothing.
pub(super) async fn configure(client: &Client) -> Result<(), Error> {
    for queue in [ORDERS, MAILS] {
        let options = json!({
            "leaseTime": 30, "retryLimit": 1, "retryDelay": 500,
            "retentionEnabled": true, "retentionSeconds": KEEP_SECONDS, "completedRetentionSeconds": KEEP_SECONDS,
        });
        client.post(&Route::new("/api/v1/configure"), &json!({"queue": queue, "options": options})).await?;
    }
    Ok(())
}

/// Pushes orders, each customer's in a partition of its own.
pub(super) async fn order(client: Client) -> Result<(), Error> {
    loop {
        let customer = CUSTOMERS[fastrand::usize(..CUSTOMERS.len())];
        let order = format!("order-{:08x}", fastrand::u32(..));
        let payload = json!({
            "order": order, "customer": customer, "total": fastrand::u32(100..20_000),
            "items": [{"name": "lamp", "count": fastrand::u8(1..4)}],
        });
        let message = json!({"queue": ORDERS, "partition": customer, "transactionId": order, "payload": payload});
        push(&client, message).await?;
        sleep(BETWEEN_ORDERS).await;
    }
}

/// Bills orders at once, and sends a mail for every second one.
pub(super) async fn bill(client: Client) -> Result<(), Error> {
    loop {
        let Some(popped) = pop(&client, ORDERS, Some("billing"), 10).await? else { continue };
        sleep(Duration::from_millis(fastrand::u64(20..200))).await;
        ack(&client, &popped, Some("billing"), |_| ("completed", None)).await?;
        for order in popped.messages.iter().filter(|_| fastrand::bool()) {
            let payload = json!({"to": order.data["customer"], "subject": "Your order", "order": order.data["order"]});
            let mut mail = json!({"queue": MAILS, "payload": payload});
            if let Some(trace) = &order.trace_id {
                mail["traceId"] = json!(trace);
            }
            push(&client, mail).await?;
        }
    }
}

/// Reads the same orders, slowly: its lag grows.
pub(super) async fn audit(client: Client) -> Result<(), Error> {
    loop {
        let Some(popped) = pop(&client, ORDERS, Some("audit"), 1).await? else { continue };
        sleep(AUDIT_TIME).await;
        ack(&client, &popped, Some("audit"), |_| ("completed", None)).await?;
    }
}

/// Sends mails. Some fail and are retried, some become dead letters.
pub(super) async fn mail(client: Client) -> Result<(), Error> {
    for number in 1_u64.. {
        let Some(popped) = pop(&client, MAILS, None, 1).await? else { continue };
        sleep(Duration::from_millis(fastrand::u64(50..300))).await;
        // Counted, so that each happens within the first seconds.
        let outcome = match number % MAILS_ROUND {
            2 => ("dlq", Some("550 mailbox does not exist")),
            4 | 9 => ("failed", Some("451 the mail server is busy")),
            _ => ("completed", None),
        };
        ack(&client, &popped, None, |_| outcome).await?;
    }
    Ok(())
}

async fn push(client: &Client, message: Value) -> Result<(), Error> {
    client.post(&Route::new("/api/v1/push"), &json!({"items": [message]})).await.map(drop)
}

/// Waits for messages; `None` if none arrived in time.
async fn pop(client: &Client, queue: &str, group: Option<&str>, batch: u32) -> Result<Option<Popped>, Error> {
    let route = Route::new("/api/v1/pop/queue").name(queue).query("wait", true).query("batch", batch);
    let answer = client.get_waiting(&route.maybe("consumerGroup", group)).await?;
    if answer.is_empty() { Ok(None) } else { answer.json().map(Some) }
}

/// Acknowledges all messages of a pop.
async fn ack(
    client: &Client,
    popped: &Popped,
    group: Option<&str>,
    outcome: impl Fn(&Message) -> (&'static str, Option<&'static str>),
) -> Result<(), Error> {
    let ack = |message: &Message| {
        let (status, error) = outcome(message);
        json!({
            "transactionId": message.transaction_id, "partitionId": popped.partition_id, "leaseId": popped.lease_id,
            "status": status, "error": error,
        })
    };
    let acks: Vec<Value> = popped.messages.iter().map(ack).collect();
    let mut body = json!({"acknowledgments": acks});
    if let Some(group) = group {
        body["consumerGroup"] = json!(group);
    }
    client.post(&Route::new("/api/v1/ack/batch"), &body).await.map(drop)
}

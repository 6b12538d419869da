//! Task graphs and their workers: a decision, a batch, retries, failures, a schedule, and a step without a worker.

use std::time::Duration;

use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::client::{Client, Error, Method, Route};

const NAMESPACE: &str = "demo";

const TEMPLATES: [&str; 4] = [
    include_str!("templates/order.yaml"),
    include_str!("templates/import.yaml"),
    include_str!("templates/digest.yaml"),
    include_str!("templates/inspection.yaml"),
];

/// The handlers of the workers. `inspect` has none.
const CALLABLES: [&str; 13] = [
    "check", "charge", "route", "ship", "reorder", "confirm", "split", "rows", "report", "collect", "render", "send",
    "prepare",
];

/// Workers, each with one step at a time.
pub(super) const WORKERS: u32 = 4;

const BETWEEN_ORDERS: Duration = Duration::from_millis(1_500);
/// Every this many orders there is an import.
const ORDERS_PER_IMPORT: u64 = 5;
/// In how many charges of a worker one is declined.
const CHARGES_ROUND: u32 = 18;
/// How long ended tasks are kept, so that a demo that runs for days stays small.
const KEEP_SECONDS: u32 = 3_600;
/// Twice a minute.
const DIGEST_CRON: &str = "*/30 * * * * *";

#[derive(Deserialize)]
struct Claimed {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    token: String,
    callable: String,
}

/// What a handler reports.
enum Report {
    Done(Value),
    Failed { message: &'static str, retryable: bool },
}

/// Registers the templates and the schedule, and submits the task that waits. Repeating it changes nothing.
pub(super) async fn prepare(client: &Client) -> Result<(), Error> {
    for template in TEMPLATES {
        let body = Some(("application/yaml", Bytes::from_static(template.as_bytes())));
        let registered = client.request(Method::POST, &Route::new("/v1/templates"), body).await;
        refused_is_done(registered)?;
    }
    let keep = json!({"retention_seconds": KEEP_SECONDS, "failed_retention_seconds": KEEP_SECONDS});
    client.put(&Route::new("/v1/namespaces").name(NAMESPACE), &keep).await?;
    let schedule = json!({
        "namespace": NAMESPACE, "name": "digest", "template": "digest", "version": "1.0.0", "cron": DIGEST_CRON,
        "time_zone": "UTC", "context": {},
    });
    client.put(&Route::new("/v1/schedules"), &schedule).await?;
    // It has an identity: a second one is a duplicate.
    refused_is_done(submit(client, "inspection", json!({"site": "harbour"})).await)
}

/// A template or task that is there already.
fn refused_is_done<T>(result: Result<T, Error>) -> Result<(), Error> {
    match result {
        Ok(_) | Err(Error::Rejected { status: 409, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Submits orders, and an import now and then.
pub(super) async fn submit_all(client: Client) -> Result<(), Error> {
    for number in 1_u64.. {
        if number % ORDERS_PER_IMPORT == 1 {
            submit(&client, "import", json!({"file": format!("customers-{}.csv", fastrand::u16(..))})).await?;
        }
        let order = json!({"order": format!("order-{:08x}", fastrand::u32(..)), "total": fastrand::u32(100..20_000)});
        submit(&client, "order", order).await?;
        sleep(BETWEEN_ORDERS).await;
    }
    Ok(())
}

async fn submit(client: &Client, name: &str, context: Value) -> Result<(), Error> {
    let task = json!({"namespace": NAMESPACE, "name": name, "version": "1.0.0", "context": context});
    client.post(&Route::new("/v1/tasks"), &task).await.map(drop)
}

/// Claims steps and runs their handlers.
pub(super) async fn work(client: Client, number: u32) -> Result<(), Error> {
    let claim = json!({
        "worker": format!("demo-worker-{number}"), "namespaces": [NAMESPACE], "callables": CALLABLES,
        "max_steps": 1, "lease_ms": 30_000, "wait_ms": 30_000,
    });
    // Counted, so that failures happen within the first seconds; each worker begins elsewhere.
    let mut charges = number;
    loop {
        let answer = client.post_waiting(&Route::new("/v1/workers/claim"), &claim).await?;
        if answer.is_empty() {
            continue;
        }
        for step in answer.json::<Claimed>()?.steps {
            sleep(Duration::from_millis(fastrand::u64(50..700))).await;
            charges += u32::from(step.callable == "charge");
            match report(&step.callable, charges) {
                Report::Done(result) => {
                    let steps = json!({"steps": [{"token": step.token, "result": result}]});
                    client.post(&Route::new("/v1/workers/complete"), &steps).await?;
                }
                Report::Failed { message, retryable } => {
                    let error = json!({"message": message, "type": "PaymentError", "retryable": retryable});
                    let steps = json!({"steps": [{"token": step.token, "error": error}]});
                    client.post(&Route::new("/v1/workers/fail"), &steps).await?;
                }
            }
        }
    }
}

/// What the handler of this name says.
fn report(callable: &str, charges: u32) -> Report {
    let chance = fastrand::u8(..100);
    Report::Done(match callable {
        "check" => json!({"in_stock": chance < 80}),
        "charge" if charges % CHARGES_ROUND == 3 => {
            return Report::Failed { message: "the card was declined", retryable: false };
        }
        "charge" if charges.is_multiple_of(4) => {
            return Report::Failed { message: "the card network timed out", retryable: true };
        }
        "charge" => json!({"charge_id": format!("ch_{:06x}", fastrand::u32(..0x100_0000))}),
        "route" => {
            let next = if chance < 75 { "ship" } else { "reorder" };
            json!({"decision_point_outcome": {"type": "create_steps", "step_names": [next]}})
        }
        "split" => {
            let parts: Vec<Value> =
                (0..fastrand::u32(3..9)).map(|part| json!({"from": part * 1_000, "to": (part + 1) * 1_000})).collect();
            json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": parts}})
        }
        "rows" => json!({"imported": 1_000}),
        _ => json!({"done": true}),
    })
}

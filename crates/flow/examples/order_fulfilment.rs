//! An order: a decision chooses the steps to create, and a convergence waits for exactly those. An order that is placed
//! twice is submitted once.
//!
//! ```text
//! $ cargo run -p reveille-flow --example order_fulfilment
//! order 1: shipped
//! order 2: reordered
//! order 3: shipped, approved by Grace
//! order 3 was placed before
//! ```

use std::time::Duration;

use reveille_flow::{Decision, Error, Failure, Flow, Options, Step, Submission, TaskState};
use reveille_pg::testing::TestDb;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

#[derive(Serialize, Deserialize)]
struct Order {
    id: u32,
    item: String,
    price: u32,
}

#[derive(Serialize, Deserialize)]
struct Checked {
    price: u32,
    in_stock: bool,
}

async fn check(step: Step<Order>) -> Result<Checked, Failure> {
    Ok(Checked { price: step.context.price, in_stock: step.context.item != "unicorn" })
}

/// Names the steps to create. A step that does not depend on this one would be rejected.
async fn route(step: Step<Order>) -> Result<Decision, Failure> {
    let Checked { price, in_stock } = step.result("check")?;
    let mut steps = vec![if in_stock { "ship" } else { "reorder" }];
    if price > 1_000 {
        steps.push("approve");
    }
    Ok(Decision::choose(steps))
}

/// Waits for the steps that the decision chose.
async fn confirm(step: Step<Order>) -> Result<(), Failure> {
    let parts = ["ship", "reorder", "approve"].map(|name| step.result_if_any::<String>(name));
    let parts: Vec<String> = parts.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
    println!("order {}: {}", step.context.id, parts.join(", "));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = TestDb::new().await;
    let flow = Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await?;
    flow.register(include_str!("order_fulfilment.yaml")).await?;

    let worker = flow.worker("shop-1").namespace("shop").handle("check", check).handle("route", route);
    let worker = worker
        .handle("ship", async |_: Step<Order>| Ok("shipped"))
        .handle("reorder", async |_: Step<Order>| Ok("reordered"))
        .handle("approve", async |_: Step<Order>| Ok("approved by Grace"));
    let worker = worker.handle("confirm", confirm).start()?;

    let place = |id: u32, item: &str, price: u32| Submission {
        idempotency_key: Some(format!("order-{id}")),
        ..Submission::new("shop", "order", "1.0.0", json!(Order { id, item: item.to_owned(), price }))
    };
    for order in [place(1, "lamp", 30), place(2, "unicorn", 900), place(3, "piano", 4_000)] {
        let task = flow.submit(order).await?.task_uuid;
        let ended = flow.wait(task, Instant::now() + Duration::from_secs(30)).await?.ok_or("it takes too long")?;
        if ended.summary.status != TaskState::Complete {
            return Err(format!("the task is {}", ended.summary.status).into());
        }
    }
    match flow.submit(place(3, "piano", 4_000)).await {
        Err(Error::Duplicate { .. }) => println!("order 3 was placed before"),
        other => return Err(format!("it should be a duplicate: {other:?}").into()),
    }
    worker.stop(Duration::from_secs(10)).await;
    Ok(())
}

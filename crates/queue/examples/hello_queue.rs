//! Pushes three orders and consumes them with a handler.
//!
//! ```text
//! $ DATABASE_URL=postgres://localhost/postgres cargo run -p reveille-queue --example hello_queue
//! order 1
//! order 2
//! order 3
//! ```
//!
//! Without `DATABASE_URL` it uses a PostgreSQL that it starts for the occasion.

use std::sync::Arc;

use reveille_pg::testing::TestDb;
use reveille_queue::{Message, NewMessage, Options, Pop, Queues, Source};
use serde_json::value::to_raw_value;
use tokio::sync::Semaphore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestDb::new().await;
    let database = reveille_pg::Database::connect_lazy(server.url(), reveille_pg::Options::default())?;
    let queues = Queues::open(database, reveille_pg::Schema::new("queue_example")?, Options::default()).await?;

    let orders = ["order 1", "order 2", "order 3"];
    let messages = orders.iter().map(|order| Ok(NewMessage::new("orders", to_raw_value(order)?)));
    queues.push(messages.collect::<serde_json::Result<Vec<_>>>()?).await?;

    // `Ok` acks the batch; an error redelivers it, up to the queue's retryLimit.
    let handled = Arc::new(Semaphore::new(0));
    let handler = {
        let handled = handled.clone();
        move |messages: Vec<Message>| {
            let handled = handled.clone();
            async move {
                for message in messages {
                    println!("{}", serde_json::from_str::<String>(message.payload.get())?);
                    handled.add_permits(1);
                }
                Ok::<(), serde_json::Error>(())
            }
        }
    };
    let all_handled = async { drop(handled.acquire_many(3).await) };
    queues.consumer(Pop::new(Source::queue("orders"))).run(all_handled, handler).await?;
    Ok(())
}

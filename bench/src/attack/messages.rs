//! Messages that do not fit into one response, or that are never acked.

use std::time::Duration;

use tokio::time::sleep;

use super::victim::Victim;
use crate::Result;

/// 400 messages of 1 MB in 400 partitions, requested by one pop.
pub(super) async fn large_pop(victim: &Victim) -> Result<String> {
    let payload = "x".repeat(1_000_000);
    for first in (0..400).step_by(8) {
        let item = |at: usize| format!(r#"{{"queue":"large","partition":"p{at}","payload":"{payload}"}}"#);
        let items = (first..first + 8).map(item).collect::<Vec<_>>().join(",");
        victim.ask("POST", "/api/v1/push", format!(r#"{{"items":[{items}]}}"#).as_bytes()).await?;
    }
    let popped = victim.ask("GET", "/api/v1/pop/queue/large?batch=10000&partitions=400", b"").await?;
    let listed = victim.ask("GET", "/api/v1/messages?queue=large&limit=1000", b"").await?;
    Ok(format!("pop {}: {} MB; list {}: {} MB", popped.status, popped.bytes >> 20, listed.status, listed.bytes >> 20))
}

/// A consumer that pops a message and never acks it, until the message becomes a dead letter.
pub(super) async fn poison(victim: &Victim) -> Result<String> {
    let configure = br#"{"queue":"poison","options":{"leaseTime":1,"retryLimit":2,"deadLetterQueue":true}}"#;
    victim.ask("POST", "/api/v1/configure", configure).await?;
    let items = br#"{"items":[{"queue":"poison","payload":"bad"},{"queue":"poison","payload":"good"}]}"#;
    victim.ask("POST", "/api/v1/push", items).await?;
    let mut deliveries = 0;
    for _ in 0..40 {
        let popped = victim.ask("GET", "/api/v1/pop/queue/poison?batch=1&wait=true&timeout=2000", b"").await?;
        let text = String::from_utf8_lossy(&popped.body);
        if text.contains("\"good\"") {
            return Ok(format!("the next message was delivered after {deliveries} deliveries of the first"));
        }
        deliveries += usize::from(text.contains("\"bad\""));
        sleep(Duration::from_millis(100)).await;
    }
    Ok(format!("the partition is blocked after {deliveries} deliveries of the first message"))
}

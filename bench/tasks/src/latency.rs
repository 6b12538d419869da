//! How long a task takes when nothing else is under way.

use std::time::Instant;

use traffic::Latencies;

use crate::{Engine, Outcome, Result};

/// One after the other.
pub(crate) async fn measure(engine: &impl Engine, samples: usize) -> Result<Outcome> {
    let mut latencies = Vec::with_capacity(samples);
    for _ in 0..samples {
        let begun = Instant::now();
        let ticket = engine.submit().await?;
        engine.done(ticket).await?;
        latencies.push(begun.elapsed());
    }
    Ok(Outcome::latencies(&Latencies::of(latencies)))
}

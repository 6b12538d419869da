//! The latency of a single task.

use std::time::Instant;

use traffic::Latencies;

use crate::{Engine, Outcome, Progress, Result};

/// Runs tasks one after another. Measures the time until the submitter knows the end of each, and the time until its
/// last step has run.
pub(crate) async fn measure(engine: &impl Engine, progress: &Progress, samples: usize) -> Result<Outcome> {
    let (mut done, mut ran) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
    for _ in 0..samples {
        let tasks = progress.tasks() + 1;
        let begun = Instant::now();
        let is_done = async {
            let ticket = engine.submit().await?;
            engine.done(ticket).await?;
            Result::Ok(begun.elapsed())
        };
        let has_run = async {
            progress.reach(tasks).await?;
            Result::Ok(begun.elapsed())
        };
        let (is_done, has_run) = tokio::try_join!(is_done, has_run)?;
        done.push(is_done);
        ran.push(has_run);
    }
    let mut outcome = Outcome::latencies(&Latencies::of(done));
    outcome.figures.extend(Latencies::of(ran).p50_ms.map(|p50_ms| ("ran_p50_ms".to_owned(), p50_ms)));
    Ok(outcome)
}

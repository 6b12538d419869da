//! Throughput with a number of concurrent tasks: when one has run, another is submitted.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::{Engine, Outcome, Progress, Result};

/// The number of submitters: enough that no engine waits for them.
const SUBMITTERS: usize = 16;
/// The time before counting starts.
const RUN_UP: Duration = Duration::from_secs(1);

/// Runs for `seconds` and counts the steps that ran in each second.
pub(crate) async fn measure(
    engine: &impl Engine,
    progress: &Arc<Progress>,
    concurrent: usize,
    seconds: usize,
) -> Result<Outcome> {
    // Tasks that ran earlier are not counted, and give no permit.
    let before = (progress.steps(), progress.tasks());
    progress.room.forget_permits(progress.room.available_permits());
    progress.room.add_permits(concurrent);
    let mut submitters = JoinSet::new();
    for _ in 0..SUBMITTERS {
        let (engine, progress) = (engine.clone(), progress.clone());
        submitters.spawn(async move {
            loop {
                // The last step of the task returns the permit.
                progress.room.acquire().await?.forget();
                engine.submit().await?;
            }
        });
    }
    let counted = async {
        let begun = Instant::now() + RUN_UP;
        sleep_until(begun).await;
        let (tasks, steps) = (progress.tasks(), progress.steps());
        let (mut each_second, mut last) = (Vec::with_capacity(seconds), steps);
        for second in 1..=seconds {
            sleep_until(begun + Duration::from_secs(second as u64)).await;
            let now = progress.steps();
            each_second.push((now - last) as f64);
            last = now;
        }
        let took = begun.elapsed().as_secs_f64();
        let (tasks, steps) = ((progress.tasks() - tasks) as f64, (progress.steps() - steps) as f64);
        let figures = [("steps_per_s", steps / took), ("tasks_per_s", tasks / took)];
        // All that ran since the start: costs are divided by these.
        let all = [("steps", (progress.steps() - before.0) as f64), ("tasks", (progress.tasks() - before.1) as f64)];
        Outcome { each_second, ..Outcome::of(figures.into_iter().chain(all)) }
    };
    tokio::select! {
        counted = counted => Ok(counted),
        ended = ended(&mut submitters) => Err(ended),
    }
}

/// Why a submitter has ended.
async fn ended(submitters: &mut JoinSet<Result<()>>) -> crate::Failure {
    match submitters.join_next().await {
        Some(Ok(Err(error))) => error,
        Some(Err(error)) => error.into(),
        _ => "the submitters have ended".into(),
    }
}

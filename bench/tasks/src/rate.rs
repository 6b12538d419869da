//! As much as goes through: so many tasks under way, and a new one for each that is done.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::{Board, Engine, Outcome, Result};

/// Who submits: enough that no engine waits for them.
const SUBMITTERS: usize = 16;
/// It gets going before it is counted.
const RUN_UP: Duration = Duration::from_secs(1);

/// Runs for so many seconds. What is counted are steps that ran, by second.
pub(crate) async fn measure(
    engine: &impl Engine,
    board: &Arc<Board>,
    in_flight: usize,
    seconds: usize,
) -> Result<Outcome> {
    // Nothing that ran before counts, nor makes room.
    let before = (board.steps(), board.tasks());
    board.room.forget_permits(board.room.available_permits());
    board.room.add_permits(in_flight);
    let mut submitters = JoinSet::new();
    for _ in 0..SUBMITTERS {
        let (engine, board) = (engine.clone(), board.clone());
        submitters.spawn(async move {
            loop {
                // It is given back by the task's last step.
                board.room.acquire().await?.forget();
                engine.submit().await?;
            }
        });
    }
    let counted = async {
        let begun = Instant::now() + RUN_UP;
        sleep_until(begun).await;
        let (tasks, steps) = (board.tasks(), board.steps());
        let (mut each_second, mut last) = (Vec::with_capacity(seconds), steps);
        for second in 1..=seconds {
            sleep_until(begun + Duration::from_secs(second as u64)).await;
            let now = board.steps();
            each_second.push((now - last) as f64);
            last = now;
        }
        let took = begun.elapsed().as_secs_f64();
        let (tasks, steps) = ((board.tasks() - tasks) as f64, (board.steps() - steps) as f64);
        let figures = [("steps_per_s", steps / took), ("tasks_per_s", tasks / took)];
        // All that ran since the beginning, for whoever counts what it cost.
        let all = [("steps", (board.steps() - before.0) as f64), ("tasks", (board.tasks() - before.1) as f64)];
        Outcome { each_second, ..Outcome::of(figures.into_iter().chain(all)) }
    };
    tokio::select! {
        counted = counted => Ok(counted),
        ended = ended(&mut submitters) => Err(ended),
    }
}

/// Why somebody submits no more.
async fn ended(submitters: &mut JoinSet<Result<()>>) -> crate::Failure {
    match submitters.join_next().await {
        Some(Ok(Err(error))) => error,
        Some(Err(error)) => error.into(),
        _ => "nobody submits".into(),
    }
}

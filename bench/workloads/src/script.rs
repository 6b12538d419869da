//! The orchestrations and activities of every workload, as users would write them.
//!
//! Every runtime registers all of them, so that all workloads have the same runtime.

use std::time::{Duration, SystemTime};

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use tokio::time::sleep;

use crate::signals::Signals;
use crate::timestamps::{Timestamps, nanos};

/// Some activities at once, and a signal before it returns. Input: how many, and the milliseconds each takes.
pub(crate) const FAN_OUT: &str = "FanOut";
/// Activities one after the other, each with a timestamp. Input: how many.
pub(crate) const CHAIN: &str = "Chain";
/// A sleep, with a timestamp of its end. Input: its milliseconds.
pub(crate) const SLEEP: &str = "Sleep";
/// One activity. Output: when the orchestration and when its activity began, in nanoseconds since the epoch.
pub(crate) const ONE: &str = "One";

const WORK: &str = "Work";
const STEP: &str = "Step";
const REPORT: &str = "Report";

pub(crate) fn activities(timestamps: &Timestamps) -> ActivityRegistry {
    let (of_steps, of_reports) = (timestamps.clone(), timestamps.clone());
    ActivityRegistry::builder()
        .register(WORK, |_: ActivityContext, input: String| async move {
            let delay = Duration::from_millis(number(&input)?);
            // A sleep of zero ends only at the next tick of the timer, a millisecond later.
            if !delay.is_zero() {
                sleep(delay).await;
            }
            Ok(input)
        })
        .register(STEP, move |activity: ActivityContext, input: String| {
            of_steps.note(activity.instance_id());
            async move { Ok(input) }
        })
        .register(REPORT, move |activity: ActivityContext, _: String| {
            let now = SystemTime::now();
            // A repeated activity finds no timestamp, because the first one took it: the turn was not later than now.
            let turn = of_reports.take(activity.instance_id()).first().copied();
            async move { Ok(format!("{} {}", nanos(turn.unwrap_or(now)), nanos(now))) }
        })
        .build()
}

pub(crate) fn orchestrations(timestamps: &Timestamps, signals: &Signals) -> OrchestrationRegistry {
    let (of_sleeps, of_turns, signals) = (timestamps.clone(), timestamps.clone(), signals.clone());
    OrchestrationRegistry::builder()
        .register(FAN_OUT, move |context: OrchestrationContext, input: String| {
            let signals = signals.clone();
            async move {
                let done = fan_out(&context, &input).await;
                signals.send(&context.instance_id());
                done
            }
        })
        .register(CHAIN, chain)
        .register(SLEEP, move |context: OrchestrationContext, input: String| {
            let timestamps = of_sleeps.clone();
            async move {
                context.schedule_timer(Duration::from_millis(number(&input)?)).await;
                timestamps.note(&context.instance_id());
                Ok(input)
            }
        })
        .register(ONE, move |context: OrchestrationContext, _: String| {
            let timestamps = of_turns.clone();
            async move {
                if !context.is_replaying() {
                    timestamps.note(&context.instance_id());
                }
                context.schedule_activity(REPORT, "").await
            }
        })
        .build()
}

/// The input of [`FAN_OUT`].
pub(crate) fn fan_out_of(activities: usize, delay: Duration) -> String {
    format!("{activities} {}", delay.as_millis())
}

async fn fan_out(context: &OrchestrationContext, input: &str) -> Result<String, String> {
    let (activities, delay) = input.split_once(' ').ok_or("a fan-out is two numbers")?;
    let activities = (0..number(activities)?).map(|_| context.schedule_activity(WORK, delay)).collect();
    let done = context.join(activities).await;
    let done: Result<Vec<String>, String> = done.into_iter().collect();
    done.map(|done| done.len().to_string())
}

async fn chain(context: OrchestrationContext, input: String) -> Result<String, String> {
    for step in 0..number(&input)? {
        context.schedule_activity(STEP, step.to_string()).await?;
    }
    Ok(input)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

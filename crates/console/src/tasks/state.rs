//! States of tasks, steps and attempts: their tone, and words for people.

use maud::Markup;

use crate::parts::{Tone, badge};

/// What a state of a task, a step or an attempt means.
pub(super) fn tone(state: &str) -> Tone {
    match state {
        "complete" | "completed_manually" | "resolved_manually" => Tone::Good,
        "steps_in_process" | "in_progress" | "evaluating_results" | "enqueuing_steps" | "enqueued" => Tone::Busy,
        "waiting_for_retry" | "failed" | "timed_out" | "lease_ended" | "taken_away" => Tone::Warn,
        "error" | "blocked_by_failures" | "failed_for_good" | "timed_out_for_good" => Tone::Bad,
        _ => Tone::Quiet,
    }
}

/// A state in words.
pub(super) fn words(state: &str) -> String {
    match state {
        "enqueuing_steps" | "enqueued" => "ready".to_owned(),
        "steps_in_process" => "in progress".to_owned(),
        "error" | "failed_for_good" => "failed".to_owned(),
        "failed" => "failed, to be retried".to_owned(),
        "timed_out" => "timed out, to be retried".to_owned(),
        "timed_out_for_good" => "timed out".to_owned(),
        "given_back" => "released".to_owned(),
        other => other.replace('_', " "),
    }
}

/// A state as a badge.
pub(super) fn shown(state: &str) -> Markup {
    badge(tone(state), &words(state))
}

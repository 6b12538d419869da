//! How states of tasks and steps look.

use crate::terminal::{Cell, Style};

/// The style of a state of a task or a step.
pub(super) fn style(state: &str) -> Style {
    match state {
        "complete" | "resolved_manually" => Style::Good,
        "error" | "blocked_by_failures" => Style::Bad,
        "cancelled" | "pending" => Style::Dim,
        "in_progress" | "steps_in_process" | "waiting_for_retry" => Style::Busy,
        _ => Style::Plain,
    }
}

/// A state in its style.
pub(super) fn cell(state: &str) -> Cell {
    Cell::styled(state, style(state))
}

/// How a step is shown in a graph.
pub(super) fn mark(state: &str) -> char {
    match state {
        "complete" | "resolved_manually" => '●',
        "error" => '✗',
        "cancelled" => '⊘',
        "in_progress" => '◐',
        "waiting_for_retry" => '↻',
        _ => '○',
    }
}

/// Whether a task has ended in this state.
pub(super) fn has_ended(state: &str) -> bool {
    matches!(state, "complete" | "error" | "cancelled" | "resolved_manually")
}

/// Whether a task that ended in this state did what was wanted.
pub(super) fn is_well(state: &str) -> bool {
    matches!(state, "complete" | "resolved_manually")
}

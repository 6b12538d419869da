//! What can be done with instances.

use axum::http::Method;

use super::api;
use crate::{Action, Field, Json, Url, Visit};

/// Starts an instance.
pub(super) fn start() -> Action {
    Action::new("Start", Method::POST, Url::api(["v1", "durable", "instances"]))
        .about(
            "Starts an orchestration. A runtime that knows its name begins it; repeating the request changes nothing.",
        )
        .field(Field::text("instance", "Instance").note("Its id: any text, unique.").required())
        .field(Field::text("name", "Orchestration").required())
        .field(Field::text("version", "Version").note("Empty: the runtime chooses."))
        .field(Field::json("input", "Input, as JSON").note("The orchestration gets its text."))
        .field(Field::text("text", "Or as plain text"))
        .command(["durable", "start", "INSTANCE", "NAME", "--input", "JSON"])
}

/// Deletes the ended instances that the list's filter selects.
pub(super) fn prune(visit: &Visit) -> Action {
    let status = visit.parameter("status").filter(|status| ["Completed", "Failed"].contains(status));
    let prune = || Url::api(["v1", "durable", "prune"]);
    let mut command = vec!["durable", "prune", "--ended-before", "30d"];
    let mut action = Action::new("Delete ended", Method::POST, prune())
        .about("Deletes ended instances with their sub-orchestrations, in small steps. Can be stopped and continued.")
        .body("what", "instances")
        .field(Field::time("ended_before", "Ended before").note("Empty: at any time."));
    if let Some(status) = status {
        action = action.body("status", status);
        command.extend(["--status", status]);
    }
    if let Some(name) = visit.parameter("name") {
        action = action.body("name", name);
        command.extend(["--name", name]);
    }
    action
        .preview(Method::POST, prune(), [("dry_run", Json::from(true))])
        .repeats()
        .confirm_by_typing("delete")
        .command(command)
}

/// Deletes old executions of all instances, or of one orchestration.
pub(super) fn prune_executions(visit: &Visit) -> Action {
    let prune = || Url::api(["v1", "durable", "prune"]);
    let mut action = Action::new("Delete old executions", Method::POST, prune())
        .about("Deletes ended executions of instances that continue as new; the current execution stays.")
        .body("what", "executions")
        .field(Field::number("keep_last", "Keep the latest").value(&Json::from(3)));
    let mut command = vec!["durable", "prune", "--executions", "--keep-last", "3"];
    if let Some(name) = visit.parameter("name") {
        action = action.body("name", name);
        command.extend(["--name", name]);
    }
    action
        .preview(Method::POST, prune(), [("dry_run", Json::from(true))])
        .repeats()
        .confirm_by_typing("delete")
        .command(command)
}

/// Raises an event for an instance.
pub(super) fn raise(instance: &str, event: &str) -> Action {
    Action::new(&format!("Raise {event}"), Method::POST, api(instance, ["events", event]))
        .about("Sends the event. Subscriptions that are open get it; in the queue of that name it stays until it is taken.")
        .field(Field::json("data", "Data, as JSON").note("The orchestration gets its text."))
        .field(Field::text("text", "Or as plain text"))
        .field(Field::flag("queue", "Put it into the queue"))
        .command(["durable", "raise", instance, event, "--data", "JSON"])
}

/// Asks an instance to end.
pub(super) fn cancel(instance: &str) -> Action {
    Action::new("Cancel", Method::POST, api(instance, ["cancel"]))
        .about("Its next turn fails it, and cancels its activities and sub-orchestrations.")
        .field(Field::text("reason", "Reason").note("Its history shows it."))
        .destructive()
        .command(["durable", "cancel", instance, "--reason", "TEXT"])
}

/// Deletes an instance.
pub(super) fn delete(instance: &str, has_ended: bool) -> Action {
    let route = if has_ended { api(instance, []) } else { api(instance, []).with("force", true) };
    let action = Action::new("Delete", Method::DELETE, route)
        .preview(Method::DELETE, api(instance, []).with("dry_run", true), [])
        .confirm_by_typing("delete")
        .then(Url::link(["durable"]));
    match has_ended {
        true => action
            .about("Deletes it with its history and its sub-orchestrations.")
            .command(["durable", "delete", instance]),
        false => action
            .about(
                "It has not ended. Deletes it with its history and its sub-orchestrations; a runtime that runs it \
                 notices when it writes.",
            )
            .command(["durable", "delete", instance, "--force"]),
    }
}

//! What can be done with a queue.

use axum::http::Method;

use super::options::OPTIONS;
use crate::{Action, Field, Json, Url};

/// A text as SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) fn push(queue: &str) -> Action {
    let payload = Field::json("items.0.payload", "Payload").required();
    Action::new("Push", Method::POST, Url::api(["api", "v1", "push"]))
        .about("Appends a message. Consumers that wait get it at once.")
        .body("items.0.queue", queue)
        .field(payload.value(&Json::Object(Vec::new())).note("Any JSON. It is delivered as it is written here."))
        .field(
            Field::text("items.0.partition", "Partition").note("Its messages keep their order. By default: Default."),
        )
        .field(Field::text("items.0.transactionId", "Transaction id").note(
            "A second message with the same id in the partition is a duplicate and is not stored. By default: random.",
        ))
        .field(Field::text("items.0.traceId", "Trace id"))
        .command(["queue", "push", queue, "{}"])
}

pub(super) fn pause(queue: &str, state: &Json) -> Action {
    let is_paused = !state["paused_at"].is_null();
    let (label, verb, about) = if is_paused {
        ("Resume", "resume", "Consumers get messages again. Groups that are paused themselves stay paused.")
    } else {
        (
            "Pause",
            "pause",
            "Consumers get nothing until the queue is resumed. What is leased may still be acked, and \
                            pushes go on.",
        )
    };
    let action = Action::new(label, Method::POST, Url::api(["v1", "queues", queue, verb]));
    let action = action.about(about).command(["queue", verb, queue]);
    // A resume also wakes the consumers, which SQL does not.
    if is_paused {
        return action;
    }
    action.sql(&format!("update queue set paused_at = now() where name = {};", literal(queue)))
}

pub(super) fn configure(queue: &str, state: &Json) -> Action {
    let action = Action::new("Configure", Method::POST, Url::api(["api", "v1", "configure"]))
        .about("Changes the options for all servers, at once. An empty field stays as it is.")
        .body("queue", queue)
        .field(Field::text("namespace", "Namespace").value(&state["namespace"]))
        .field(Field::text("task", "Task").value(&state["task"]))
        .command(["queue", "configure", queue, "leaseTime=60"]);
    OPTIONS.iter().fold(action, |action, option| {
        let path = format!("options.{}", option.name);
        let label = format!("{} ({})", option.label, option.name);
        let field = if option.is_flag { Field::flag(&path, &label) } else { Field::number(&path, &label) };
        let note = format!("{} Default: {}.", option.about, option.default);
        action.field(field.value(&state["options"][option.name]).note(&note))
    })
}

/// What a queue holds, for those who are about to lose it.
fn contents(state: &Json) -> String {
    let messages = if state["messages"].is_null() { "many".to_owned() } else { state["messages"].shown() };
    format!(
        "{messages} messages in {} partitions, of which {} are not consumed, {} consumer groups and {} dead letters",
        state["partitions"].shown(),
        if state["depth"].is_null() { "many".to_owned() } else { state["depth"].shown() },
        state["groups"].shown(),
        state["dead_letters"].shown(),
    )
}

pub(super) fn clear(queue: &str, state: &Json) -> Action {
    let about = format!(
        "Removes all messages; the queue holds {}. Partitions, groups and dead letters stay. Consumer groups continue \
         with the next message. This cannot be undone.",
        contents(state)
    );
    Action::new("Clear", Method::DELETE, Url::api(["api", "v1", "queues", queue, "clear"]))
        .about(&about)
        .field(Field::text("?partition", "Only this partition"))
        .confirm_by_typing(queue)
        .command(["queue", "clear", queue])
}

pub(super) fn delete(queue: &str, state: &Json) -> Action {
    let about = format!(
        "Deletes the queue with everything in it: {}. A later push creates it again, empty and with default options. \
         This cannot be undone.",
        contents(state)
    );
    Action::new("Delete", Method::DELETE, Url::api(["api", "v1", "resources", "queues", queue]))
        .about(&about)
        .confirm_by_typing(queue)
        .command(["queue", "delete", queue])
        .sql(&format!("select remove_queue({});", literal(queue)))
        .then(Url::link(["queues"]))
}

#[cfg(test)]
mod tests {
    use maud::Render as _;

    use super::*;

    /// A queue's name cannot break out of the SQL, the shell or the page.
    #[test]
    fn a_name_stays_a_name() {
        let state = Json::parse(r#"{"name": "x", "messages": 3, "partitions": 1}"#).expect("JSON");
        let page = delete("o'brien'); drop <b>", &state).render().into_string();
        assert!(page.contains("remove_queue('o''brien''); drop &lt;b&gt;');"), "{page}");
        assert!(page.contains(r"reveille queue delete 'o'\''brien'\''); drop &lt;b&gt;'"), "{page}");
        assert!(page.contains("3 messages in 1 partitions"), "{page}");
    }
}

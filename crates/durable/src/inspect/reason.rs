//! Why an instance is not running, in one sentence.
//!
//! The first cause that applies is said: what ended, then what runs, then what is due and not claimed, then what is
//! waited for. Times are RFC 3339, as everywhere in the API.

use super::Status;
use super::instance::{Activity, Child, Instance, Message};

/// The most names in a sentence.
const NAMED_MAX: usize = 3;

/// Why an instance is not running, or that it is.
pub(super) fn reason(instance: &Instance, children: &[Child]) -> String {
    let ended = instance.completed_at.map(|at| format!(" at {at}")).unwrap_or_default();
    match instance.status {
        Status::Completed => return format!("It completed{ended}."),
        Status::Failed => return format!("It failed{ended}."),
        Status::Pending | Status::Running | Status::ContinuedAsNew => {}
    }
    let due: Vec<&Message> = instance.messages.iter().filter(|message| message.is_due).collect();
    if let Some(lease) = &instance.lease {
        return match lease.held {
            true => format!("A runtime runs a turn of it now, with a lease until {}.", lease.until),
            false => format!(
                "The lease of its last turn ended at {} without a result: the runtime stopped or hangs. The next free \
                 runtime takes it over.",
                lease.until
            ),
        };
    }
    if let Some(first) = due.first() {
        return unclaimed(instance, first, due.len());
    }
    if let Some(retried) = instance.messages.iter().find(|message| message.attempts > 0 && message.due_at.is_some()) {
        let at = retried.due_at.map(|at| at.to_string()).unwrap_or_default();
        return format!(
            "Its last turn was given back after {}; it is tried again at {at}.",
            attempts(retried.attempts)
        );
    }
    match waits(instance, children) {
        waits if waits.is_empty() => {
            "It has begun and nothing is due: no message, activity, timer or sub-orchestration is left for it."
                .to_owned()
        }
        waits => format!("It waits for {}.", joined(&waits, " and ")),
    }
}

/// A due message that no runtime has claimed.
fn unclaimed(instance: &Instance, first: &Message, due: usize) -> String {
    let since = first.due_at.map(|at| at.to_string()).unwrap_or_default();
    let what = match (instance.status, due) {
        (Status::Pending, _) => "It was started and has not run".to_owned(),
        (_, 1) => format!("A message ({}) is due", first.kind),
        (_, due) => format!("{due} messages are due"),
    };
    let version = instance.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let name = &instance.name;
    let tried = if first.attempts > 0 { format!(", after {}", attempts(first.attempts)) } else { String::new() };
    format!("{what} since {since}{tried}: no runtime that knows {name:?}{version} has claimed it.")
}

/// What it waits for, each in some words.
fn waits(instance: &Instance, children: &[Child]) -> Vec<String> {
    let mut waits = Vec::new();
    let own = |activity: &&Activity| activity.execution == instance.execution;
    let activities: Vec<&Activity> = instance.activities.iter().filter(own).collect();
    match activities.as_slice() {
        [] => {}
        [one] => waits.push(activity(one)),
        many => {
            let running = many.iter().filter(|activity| activity.is_running).count();
            let names = many.iter().map(|activity| format!("{:?}", activity.name)).collect();
            let more = if instance.more_activities { "more than " } else { "" };
            waits.push(format!("{more}{} activities, {running} of them running ({})", many.len(), listed(names)));
        }
    }
    match children {
        [] => {}
        [Child { instance: Some(id), name }] => waits.push(format!("the sub-orchestration {id:?} ({name:?})")),
        [Child { instance: None, name }] => {
            waits.push(format!("the sub-orchestration {name:?}, which no runtime has begun"));
        }
        many => {
            let ids = many.iter().map(|child| format!("{:?}", child.instance.as_ref().unwrap_or(&child.name)));
            waits.push(format!("sub-orchestrations ({})", listed(ids.collect())));
        }
    }
    let timers = instance.messages.iter().filter(|message| message.kind == "TimerFired");
    if let Some(at) = timers.filter_map(|timer| timer.due_at).next() {
        waits.push(format!("a timer until {at}"));
    }
    let events: Vec<String> = instance.waits_for.iter().map(|name| format!("{name:?}")).collect();
    match events.len() {
        0 => {}
        1 => waits.push(format!("the event {}", events[0])),
        _ => waits.push(format!("events ({})", listed(events))),
    }
    waits
}

fn activity(activity: &Activity) -> String {
    let name = &activity.name;
    let tag = activity.tag.as_deref().map(|tag| format!(" with the tag {tag:?}")).unwrap_or_default();
    let session = activity.session.as_deref().map(|session| format!(" with the session {session:?}"));
    let session = session.unwrap_or_default();
    let due = activity.due_at;
    match (activity.is_running, activity.is_due) {
        (true, _) => {
            let until = activity.leased_until.map(|until| format!(", leased until {until}")).unwrap_or_default();
            format!("the activity {name:?}, which a worker runs (attempt {}{until})", activity.attempts)
        }
        (false, true) => {
            format!("the activity {name:?}, due since {due}: no worker{tag}{session} has claimed it")
        }
        (false, false) => {
            format!("the activity {name:?}, which is tried again at {due} after {}", attempts(activity.attempts))
        }
    }
}

fn attempts(count: u64) -> String {
    match count {
        1 => "1 attempt".to_owned(),
        count => format!("{count} attempts"),
    }
}

/// The first names, and that there are more.
fn listed(names: Vec<String>) -> String {
    let more = if names.len() > NAMED_MAX { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(NAMED_MAX)].join(", "))
}

fn joined(parts: &[String], last: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{}{last}{end}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use reveille_web::Timestamp;
    use time::macros::datetime;

    use super::*;
    use crate::inspect::instance::Lease;

    const AT: Timestamp = Timestamp(datetime!(2026-01-02 03:04:05 UTC));

    fn instance() -> Instance {
        Instance {
            instance: "order-7".into(),
            name: "Order".into(),
            version: Some("1.2.0".into()),
            status: Status::Running,
            reason: String::new(),
            parent: None,
            execution: 1,
            created_at: AT,
            updated_at: AT,
            started_at: Some(AT),
            completed_at: None,
            custom_status: None,
            custom_status_version: 0,
            output: None,
            output_bytes: None,
            lease: None,
            messages: Vec::new(),
            more_messages: false,
            activities: Vec::new(),
            more_activities: false,
            waits_for: Vec::new(),
        }
    }

    fn message(kind: &str, is_due: bool, attempts: u64) -> Message {
        Message { kind: kind.into(), name: None, due_at: Some(AT), is_due, attempts }
    }

    fn activity(name: &str, is_running: bool, is_due: bool) -> Activity {
        Activity {
            event_id: 2,
            execution: 1,
            name: name.into(),
            is_running,
            leased_until: is_running.then_some(AT),
            due_at: AT,
            is_due,
            attempts: 2,
            tag: None,
            session: None,
        }
    }

    fn child(instance: Option<&str>) -> Child {
        Child { instance: instance.map(str::to_owned), name: "Ship".into() }
    }

    /// Each cause has its sentence, with names and times. The first cause that applies is said.
    #[test]
    fn every_cause_has_a_sentence() {
        let say = |change: &dyn Fn(&mut Instance), children: &[Child]| {
            let mut it = instance();
            change(&mut it);
            reason(&it, children)
        };
        let at = AT.to_string();
        let lease = |held| Some(Lease { held, until: AT, messages: 1 });
        let table: Vec<(String, &str)> = vec![
            (say(&|it| (it.status, it.completed_at) = (Status::Failed, Some(AT)), &[]), "It failed at {at}."),
            (say(&|it| it.lease = lease(true), &[]), "A runtime runs a turn of it now, with a lease until {at}."),
            (say(&|it| it.lease = lease(false), &[]), "The lease of its last turn ended at {at} without a result"),
            (
                say(
                    &|it| {
                        (it.status, it.version, it.messages) =
                            (Status::Pending, None, vec![message("StartOrchestration", true, 0)])
                    },
                    &[],
                ),
                "It was started and has not run since {at}: no runtime that knows \"Order\" has claimed it.",
            ),
            (
                say(&|it| it.messages = vec![message("ExternalRaised", true, 1)], &[]),
                "A message (ExternalRaised) is due since {at}, after 1 attempt: no runtime that knows \"Order\" 1.2.0 has claimed it.",
            ),
            (
                say(&|it| it.messages = vec![message("ActivityCompleted", false, 3)], &[]),
                "Its last turn was given back after 3 attempts; it is tried again at {at}.",
            ),
            (
                say(&|it| it.activities = vec![activity("Charge", true, true)], &[]),
                "It waits for the activity \"Charge\", which a worker runs (attempt 2, leased until {at}).",
            ),
            (
                say(&|it| it.activities = vec![activity("Charge", false, true)], &[]),
                "It waits for the activity \"Charge\", due since {at}: no worker has claimed it.",
            ),
            (
                say(&|it| it.activities = vec![activity("Charge", false, false)], &[]),
                "It waits for the activity \"Charge\", which is tried again at {at} after 2 attempts.",
            ),
            (
                say(
                    &|it| (it.messages, it.waits_for) = (vec![message("TimerFired", false, 0)], vec!["paid".into()]),
                    &[],
                ),
                "It waits for a timer until {at} and the event \"paid\".",
            ),
            (say(&|_| {}, &[child(Some("s-1"))]), "It waits for the sub-orchestration \"s-1\" (\"Ship\")."),
            (say(&|_| {}, &[child(None)]), "It waits for the sub-orchestration \"Ship\", which no runtime has begun."),
            (say(&|_| {}, &[]), "It has begun and nothing is due"),
        ];
        for (said, expected) in table {
            assert!(said.starts_with(&expected.replace("{at}", &at)), "{said}\n{expected}");
        }
        let five =
            |it: &mut Instance| it.activities = (0..5).map(|at| activity(&format!("a{at}"), at == 0, true)).collect();
        assert_eq!(say(&five, &[]), "It waits for 5 activities, 1 of them running (\"a0\", \"a1\", \"a2\", …).");
    }
}

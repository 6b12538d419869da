//! What needs attention: decided from figures, without a clock or a database.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

/// A backlog that is older than this is worth a look: much longer than any delivery takes.
const OLD: Duration = Duration::from_secs(60);
/// A backlog that is older than this is a fault.
const VERY_OLD: Duration = Duration::from_secs(15 * 60);
/// A transaction that is open for longer holds back vacuum noticeably.
const LONG_TRANSACTION: Duration = Duration::from_secs(10 * 60);
/// More dead rows than this, and more than live ones, slow scans down.
const MANY_DEAD_ROWS: u64 = 100_000;
/// The notification queue is large; when this share is used, a listener has not read for long.
const FILLING: f64 = 0.25;

/// How urgent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = OverviewSeverity)]
pub(super) enum Severity {
    /// Something does not work.
    Bad,
    /// Something may soon not work, or waits.
    Warn,
}

/// Something that needs attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OverviewAttention)]
pub(super) struct Attention {
    pub(super) severity: Severity,
    /// `queue`, `flow`, `durable`, `wake` or `database`.
    pub(super) product: &'static str,
    /// What it is, in a few words.
    pub(super) title: String,
    /// What it means, and what helps.
    pub(super) about: String,
    /// The page of the console that shows it, relative to the console.
    pub(super) link: String,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Why notifications are not received; `None`: they are.
    pub(super) listener: Option<&'static str>,
    /// Queue, group, lag, age of the oldest message.
    pub(super) groups: Vec<(String, String, u64, Option<Duration>)>,
    /// Queue, its dead letters.
    pub(super) dead_letters: Vec<(String, u64)>,
    /// Namespace, the age of its oldest claimable step.
    pub(super) ready_steps: Vec<(String, Duration)>,
    /// Namespace, tasks with a permanently failed step.
    pub(super) failed_tasks: Vec<(String, u64)>,
    pub(super) investigations: u64,
    /// Due messages to orchestrations, and the age of the oldest.
    pub(super) turns: (u64, Option<Duration>),
    /// Waiting activities, and the age of the oldest.
    pub(super) activities: (u64, Option<Duration>),
    pub(super) server: Option<reveille_wake::ServerState>,
}

/// What needs attention, the most urgent first.
pub(super) fn of(seen: &Seen) -> Vec<Attention> {
    let mut found = Vec::new();
    let mut add = |severity, product, title: String, about: &str, link: String| {
        found.push(Attention { severity, product, title, about: about.to_owned(), link });
    };
    let by_age = |age: Duration| if age >= VERY_OLD { Severity::Bad } else { Severity::Warn };
    if let Some(why) = seen.listener {
        let about = "Notifications of other processes do not arrive, so this one polls. Work is found later and costs \
                     statements; nothing is lost.";
        add(Severity::Warn, "wake", format!("Polling: {why}"), about, "wake".to_owned());
    }
    if let Some(server) = seen.server {
        database(&server, &mut add);
    }
    for (queue, group, lag, oldest) in &seen.groups {
        let Some(oldest) = oldest.filter(|age| *age >= OLD && *lag > 0) else { continue };
        let title = format!("{} of {queue} lags: {lag} messages, oldest {}", named(group), words(oldest));
        let about = "Messages wait longer than a minute. There is no consumer, it is too slow, or it holds a lease \
                     without an ack.";
        add(by_age(oldest), "queue", title, about, format!("queues/{}?tab=groups", encoded(queue)));
    }
    for (queue, amount) in &seen.dead_letters {
        let about = "These messages failed too often and are not delivered again by themselves. Replay or purge them.";
        let link = format!("queues/{}?tab=dead", encoded(queue));
        add(Severity::Warn, "queue", format!("{amount} dead letters in {queue}"), about, link);
    }
    for (namespace, age) in seen.ready_steps.iter().filter(|(_, age)| *age >= OLD) {
        let title = format!("Steps of {namespace} have waited for a worker for {}", words(*age));
        let about = "Steps are ready and are not claimed: no worker asks for their names, all workers are busy, or a \
                     limit is reached.";
        add(by_age(*age), "flow", title, about, format!("tasks?namespace={}", encoded(namespace)));
    }
    for (namespace, amount) in &seen.failed_tasks {
        let about = "A step failed permanently. Retry it, resolve it, or cancel the task.";
        let link = format!("tasks?namespace={}&state=error", encoded(namespace));
        add(Severity::Warn, "flow", format!("{amount} tasks of {namespace} have failed"), about, link);
    }
    if seen.investigations > 0 {
        let about = "Tasks exceeded a limit and wait for a decision.";
        add(
            Severity::Warn,
            "flow",
            format!("{} open investigations", seen.investigations),
            about,
            "tasks?tab=dead".into(),
        );
    }
    for (amount, oldest, what) in [
        (seen.turns.0, seen.turns.1, "messages to orchestrations"),
        (seen.activities.0, seen.activities.1, "activities"),
    ] {
        let Some(oldest) = oldest.filter(|age| *age >= OLD) else { continue };
        let about = "They are due and no process executes them: is the program with the orchestrations running?";
        let title = format!("{amount} {what} wait, oldest {}", words(oldest));
        add(by_age(oldest), "durable", title, about, "durable".to_owned());
    }
    found.sort_by_key(|one| one.severity);
    found
}

fn database(server: &reveille_wake::ServerState, add: &mut impl FnMut(Severity, &'static str, String, &str, String)) {
    if let Some(age) = server.oldest_transaction.filter(|age| *age >= LONG_TRANSACTION) {
        let about = "A transaction holds back vacuum: dead rows stay and scans become slower. Find it in \
                     pg_stat_activity, and end it if you can.";
        add(Severity::Warn, "database", format!("A transaction is open for {}", words(age)), about, "wake".to_owned());
    }
    if server.dead_rows > MANY_DEAD_ROWS && server.dead_rows > server.live_rows {
        let about = "Vacuum does not keep up: see autovacuum in the operating guide, and look for old transactions.";
        let title = format!("{} dead rows, {} live", server.dead_rows, server.live_rows);
        add(Severity::Warn, "database", title, about, "wake".to_owned());
    }
    if server.notification_queue >= FILLING {
        let about = "A session of this database listens and does not read. When the queue is full, commits fail.";
        let title = format!("The notification queue is {:.0} % full", server.notification_queue * 100.0);
        add(Severity::Bad, "database", title, about, "wake".to_owned());
    }
}

/// A consumer group by its name.
pub(super) fn named(group: &str) -> String {
    if group.is_empty() || group.starts_with("__") {
        "The queue's own consumer".to_owned()
    } else {
        format!("Group {group}")
    }
}

/// A duration in words.
fn words(of: Duration) -> String {
    match of.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A name as a segment of an address.
pub(super) fn encoded(name: &str) -> String {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| if unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is reported while all is well; faults come before warnings; short waits are not reported; names are
    /// encoded in links.
    #[test]
    fn what_needs_attention_comes_by_urgency() {
        let fresh = Some(Duration::from_secs(5));
        let calm = Seen { groups: vec![("q".into(), "g".into(), 9, fresh)], turns: (3, fresh), ..Seen::default() };
        assert_eq!(of(&calm), []);
        let seen = Seen {
            listener: Some("the listener has lost its connection"),
            groups: vec![("a/b".into(), "billing".into(), 9, Some(Duration::from_secs(3_600)))],
            dead_letters: vec![("q".into(), 2)],
            failed_tasks: vec![("shop".into(), 1)],
            ready_steps: vec![("shop".into(), Duration::from_secs(90))],
            ..Seen::default()
        };
        let found = of(&seen);
        assert_eq!(found.len(), 5);
        let first = &found[0];
        assert_eq!((first.severity, first.link.as_str()), (Severity::Bad, "queues/a%2Fb?tab=groups"));
        assert_eq!(first.title, "Group billing of a/b lags: 9 messages, oldest 60 min");
        assert!(found[1..].iter().all(|one| one.severity == Severity::Warn));
    }
}

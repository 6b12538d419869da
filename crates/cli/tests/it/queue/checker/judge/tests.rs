//! Example logs: one without violations, and for each rule one that violates it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::super::log::{
    AckStatus, Dead, Delivered, Delivery, Extension, Log, Move, Position, Push, PushOutcome, Report, ReportOutcome,
    Span,
};
use super::judge;

const PARTITION: &str = "q/p";
const LIMIT: u32 = 1;

fn span(asked: u64, heard: u64) -> Span {
    Span { asked: Duration::from_millis(asked), heard: Some(Duration::from_millis(heard)) }
}

fn push(at: u64, transaction: &str, outcome: PushOutcome) -> Push {
    let (span, partition, transaction) = (span(at, at + 5), PARTITION.to_owned(), transaction.to_owned());
    Push { span, request: at, partition, transaction, outcome }
}

fn queued(at: u64, name: &str) -> Push {
    push(at, &format!("t-{name}"), PushOutcome::Queued(name.to_owned()))
}

/// A delivery to a group at a time, under its own lease of one second.
fn got(at: u64, group: &str, messages: &[&str]) -> Delivery {
    let message = |name: &&str| Delivered {
        id: (*name).to_owned(),
        transaction: format!("t-{name}"),
        created: format!("2026-{name}"),
    };
    Delivery {
        span: span(at, at + 5),
        group: group.to_owned(),
        partition: PARTITION.to_owned(),
        lease: format!("{group}-{at}"),
        lease_for: Duration::from_secs(1),
        retries: 0,
        partition_id: String::new(),
        messages: messages.iter().map(message).collect(),
    }
}

const DONE: ReportOutcome = ReportOutcome::Counted { dead: false };

/// An ack of a message under a lease.
fn report(at: u64, lease: &str, message: &str, status: AckStatus, outcome: ReportOutcome) -> Report {
    let (group, _) = lease.split_once('-').expect("a group and a time");
    Report {
        span: span(at, at + 5),
        call: at,
        group: group.to_owned(),
        partition: PARTITION.to_owned(),
        lease: lease.to_owned(),
        id: message.to_owned(),
        status,
        outcome,
    }
}

fn completed(at: u64, lease: &str, message: &str) -> Report {
    report(at, lease, message, AckStatus::Completed, DONE)
}

fn moved(at: u64, to: Position) -> Move {
    Move { span: span(at, at + 5), group: "w".to_owned(), scope: "q".to_owned(), to }
}

/// Four messages; one duplicate; two groups that read everything, one of them in two portions.
fn fine() -> Log {
    let mut pushes: Vec<Push> = ["1", "2", "3", "4"].iter().zip(0..).map(|(name, at)| queued(10 * at, name)).collect();
    pushes.push(push(50, "t-2", PushOutcome::Duplicate("2".to_owned())));
    Log {
        pushes,
        deliveries: vec![got(100, "a", &["1", "2", "3", "4"]), got(100, "b", &["1", "2"]), got(120, "b", &["3", "4"])],
        reports: vec![completed(110, "a-100", "4"), completed(110, "b-100", "2"), completed(130, "b-120", "4")],
        ..Log::default()
    }
}

/// The same with a group that is moved once, reads two messages before the move and `after` it, and completes them.
fn wandering(to: Position, after: &[&str]) -> Log {
    let mut log = fine();
    log.deliveries.extend([got(200, "w", &["1", "2"]), got(400, "w", after)]);
    log.reports.extend([completed(210, "w-200", "2"), completed(410, "w-400", after[after.len() - 1])]);
    log.moves.push(moved(300, to));
    log
}

fn broken(log: &Log) -> BTreeSet<&'static str> {
    judge(log, &HashMap::from([("q".to_owned(), LIMIT)])).iter().map(|violation| violation.rule).collect()
}

/// Checks that a log violates a rule, perhaps among others.
#[track_caller]
fn assert_broken(log: &Log, rule: &str) {
    let found = broken(log);
    assert!(found.contains(rule), "{rule} is not in {found:?}");
}

/// A correct log has no violations: with retries, lost responses, late acks and moves.
#[test]
fn a_correct_log_has_no_violations() {
    assert_eq!(broken(&fine()), BTreeSet::new());
    for (to, after) in
        [(Position::Beginning, vec!["1", "2", "3", "4"]), (Position::Time("2026-2".to_owned()), vec!["2", "3", "4"])]
    {
        assert_eq!(broken(&wandering(to, &after)), BTreeSet::new());
    }
    let mut log = wandering(Position::End, &["5"]);
    log.pushes.push(queued(350, "5"));
    log.deliveries.extend([got(360, "a", &["5"]), got(360, "b", &["5"])]);
    assert_eq!(broken(&log), BTreeSet::new());

    // A lease ends, its messages come again, and a late ack is rejected.
    let mut log = fine();
    log.deliveries.extend([got(200, "c", &["1", "2"]), got(1_300, "c", &["1", "2", "3", "4"])]);
    log.reports.push(report(1_400, "c-200", "2", AckStatus::Completed, ReportOutcome::Over));
    assert_eq!(broken(&log), BTreeSet::new());

    // A response is lost; the repeated push is a duplicate.
    let mut log = fine();
    log.pushes[3].outcome = PushOutcome::Lost;
    log.pushes[3].span.heard = None;
    log.pushes.push(push(40, "t-4", PushOutcome::Duplicate("4".to_owned())));
    assert_eq!(broken(&log), BTreeSet::new());
}

/// Pushes: an id twice, a duplicate with another's id, one without an original, a rolled-back message, one that was not
/// pushed, one that was not delivered.
#[test]
fn wrong_pushes_are_violations() {
    let one = "a transaction id is one message";
    for (transaction, outcome) in [
        ("t-2", PushOutcome::Queued("2".to_owned())),
        ("t-2", PushOutcome::Duplicate("3".to_owned())),
        ("t-9", PushOutcome::Duplicate("9".to_owned())),
    ] {
        let mut log = fine();
        log.pushes.push(push(60, transaction, outcome));
        assert_broken(&log, one);
    }
    let mut log = fine();
    log.pushes[4] = push(50, "t-2", PushOutcome::RolledBack);
    assert_eq!(broken(&log), BTreeSet::new(), "another client pushed it");
    log.pushes[1].outcome = PushOutcome::RolledBack;
    assert_broken(&log, "nothing is invented");
    let mut log = fine();
    log.pushes.retain(|push| push.transaction != "t-4");
    assert_broken(&log, "nothing is invented");
    let mut log = fine();
    log.pushes.push(queued(60, "5"));
    assert_broken(&log, "every pushed message is delivered");
    let mut log = fine();
    log.deliveries[0].partition = "q/elsewhere".to_owned();
    assert_broken(&log, "nothing is invented");
}

/// Order: against the pushes, within a request, between groups, with a gap.
#[test]
fn wrong_order_is_a_violation() {
    let rule = "order is commit order";
    let mut log = fine();
    log.pushes.swap(0, 1);
    log.pushes[0].span = span(0, 5);
    log.pushes[1].span = span(10, 15);
    assert_broken(&log, rule);
    let mut log = fine();
    for (push, span) in log.pushes.iter_mut().zip([span(0, 50); 4]) {
        (push.span, push.request) = (span, 7);
    }
    assert_eq!(broken(&log), BTreeSet::new(), "they were pushed together");
    log.pushes.swap(0, 1);
    assert_broken(&log, rule);

    let mut log = fine();
    log.deliveries[0] = got(100, "a", &["1", "2", "4", "3"]);
    assert_broken(&log, "all groups see the same order");
    let mut log = fine();
    log.deliveries.push(got(200, "c", &["1", "2", "4"]));
    assert_broken(&log, "a lease has consecutive messages");
}

/// Cursors: a message that is skipped, delivered again, or never delivered; a group at the wrong position after a move.
#[test]
fn wrong_cursors_are_violations() {
    let mut log = fine();
    log.reports.remove(1);
    assert_broken(&log, "no message is skipped");
    let mut log = fine();
    log.reports[1].outcome = ReportOutcome::Over;
    assert_broken(&log, "no message is skipped");
    let mut log = fine();
    log.reports[1].outcome = ReportOutcome::Lost;
    assert_eq!(broken(&log), BTreeSet::new(), "it may have been applied");

    let mut log = fine();
    log.deliveries.push(got(140, "b", &["4"]));
    assert_broken(&log, "an ended message is never delivered again");
    let mut log = fine();
    log.deliveries.pop();
    log.reports.pop();
    assert_broken(&log, "every message is delivered to every group");

    assert_broken(&wandering(Position::Beginning, &["2", "3", "4"]), "no message is skipped");
    assert_broken(&wandering(Position::Beginning, &["1", "2", "3"]), "every message is delivered to every group");
    assert_broken(&wandering(Position::End, &["4"]), "a moved group continues at its new position");
    assert_broken(
        &wandering(Position::Time("2026-3".to_owned()), &["2", "3", "4"]),
        "a moved group continues at its new position",
    );
    assert_broken(&wandering(Position::Time("2026-2".to_owned()), &["3", "4"]), "no message is skipped");
    let mut log = wandering(Position::Beginning, &["1", "2", "3", "4"]);
    log.deliveries.push(got(420, "w", &["3"]));
    assert_broken(&log, "an ended message is never delivered again");
}

/// Leases: two at a time, also after an extension; an ack rejected too early, and one applied too late.
#[test]
fn wrong_leases_are_violations() {
    let rule = "one lease at a time";
    let again = |at| {
        let mut log = fine();
        log.deliveries.extend([got(200, "c", &["1", "2"]), got(at, "c", &["1", "2", "3", "4"])]);
        log
    };
    assert_broken(&again(900), rule);
    assert_eq!(broken(&again(1_250)), BTreeSet::new(), "the first has ended");
    let mut log = again(1_250);
    let by = Duration::from_secs(1);
    log.extensions.push(Extension { span: span(1_000, 1_005), lease: "c-200".to_owned(), by, success: true });
    assert_broken(&log, rule);
    log.extensions[0].success = false;
    assert_eq!(broken(&log), BTreeSet::new(), "it was not extended");
    let mut log = again(900);
    log.reports.push(report(300, "c-200", "1", AckStatus::Retry, DONE));
    assert_eq!(broken(&log), BTreeSet::new(), "it was given back");
    let mut log = again(900);
    log.crashes.push(span(500, 600));
    assert_eq!(broken(&log), BTreeSet::new(), "it may have been lost");
    log.deliveries[3].lease_for = Duration::from_secs(5);
    log.deliveries[4].span = span(1_900, 1_905);
    log.crashes[0] = span(1_500, 1_600);
    assert_broken(&log, rule);

    let mut log = fine();
    log.reports[0].outcome = ReportOutcome::Over;
    assert_broken(&log, "an ack under a current lease is applied");
    log.crashes.push(span(112, 114));
    assert_eq!(broken(&log), BTreeSet::new(), "it may have been applied before");
    let mut log = again(1_250);
    log.reports.push(completed(1_300, "c-200", "2"));
    assert_broken(&log, "an ack under an expired lease changes nothing");
    log.reports.push(completed(1_290, "c-1250", "4"));
    assert_eq!(broken(&log), BTreeSet::new(), "the new holder sent the same ack");
}

/// A call in which a failure is skipped, and one in which a message is rejected without a failure before it.
#[test]
fn a_skipped_failure_is_a_violation() {
    let rule = "an ack after a failure in a call is not applied";
    let call = |second| {
        let mut log = fine();
        log.reports[0] = report(110, "a-100", "1", AckStatus::Failed, DONE);
        log.reports.push(Report {
            call: 110,
            span: log.reports[0].span,
            ..report(110, "a-100", "2", AckStatus::Completed, second)
        });
        let again = Delivery { retries: 1, ..got(150, "a", &["1", "2", "3", "4"]) };
        log.deliveries.push(again);
        log
    };
    assert_eq!(broken(&call(ReportOutcome::Behind)), BTreeSet::new());
    assert_broken(&call(DONE), rule);
    let mut log = fine();
    log.reports[0].outcome = ReportOutcome::Behind;
    assert_broken(&log, rule);
}

/// Dead letters: too early, too late, not listed, listed without a reason, listed twice; and a wrong count.
#[test]
fn wrong_dead_letters_are_violations() {
    let dead = ReportOutcome::Counted { dead: true };
    let letter = Dead { group: "a".to_owned(), partition: PARTITION.to_owned(), id: "1".to_owned() };
    // Fails once more than the limit, and becomes a dead letter.
    let given_up = || {
        let mut log = fine();
        log.reports[0] = report(110, "a-100", "1", AckStatus::Failed, DONE);
        log.deliveries.push(Delivery { retries: 1, ..got(150, "a", &["1", "2", "3", "4"]) });
        log.reports.push(report(160, "a-150", "1", AckStatus::Failed, dead));
        log.dead.push(letter.clone());
        log
    };
    assert_eq!(broken(&given_up()), BTreeSet::new());
    let earned = "a dead letter has failed once more than the limit";
    let mut log = given_up();
    log.reports[0].outcome = dead;
    assert_broken(&log, earned);
    let mut log = given_up();
    log.reports[3].outcome = DONE;
    assert_broken(&log, earned);

    let listed = "the listed dead letters are exactly the reported ones";
    let mut log = given_up();
    log.dead.clear();
    assert_broken(&log, listed);
    let mut log = given_up();
    log.dead.push(letter.clone());
    assert_broken(&log, listed);
    let mut log = fine();
    log.dead.push(letter.clone());
    assert_broken(&log, listed);

    let mut log = given_up();
    log.deliveries[3].retries = 0;
    assert_broken(&log, "a delivery has the number of failures of its first message");
}

//! Made-up logs: one in which all is well, and for each rule one in which it is broken.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::super::log::{
    Dead, Delivered, Delivery, Extension, Log, Move, Place, Push, PushFate, Said, Span, Word, WordFate,
};
use super::judge;

const LANE: &str = "q/p";
const LIMIT: u32 = 1;

fn span(asked: u64, heard: u64) -> Span {
    Span { asked: Duration::from_millis(asked), heard: Some(Duration::from_millis(heard)) }
}

fn push(at: u64, transaction: &str, fate: PushFate) -> Push {
    let (span, lane, transaction) = (span(at, at + 5), LANE.to_owned(), transaction.to_owned());
    Push { span, request: at, lane, transaction, fate }
}

fn queued(at: u64, name: &str) -> Push {
    push(at, &format!("t-{name}"), PushFate::Queued(name.to_owned()))
}

/// What a group got at a moment, under a lease of its own of one second.
fn got(at: u64, group: &str, messages: &[&str]) -> Delivery {
    let message = |name: &&str| Delivered {
        id: (*name).to_owned(),
        transaction: format!("t-{name}"),
        created: format!("2026-{name}"),
    };
    Delivery {
        span: span(at, at + 5),
        group: group.to_owned(),
        lane: LANE.to_owned(),
        lease: format!("{group}-{at}"),
        lease_for: Duration::from_secs(1),
        retries: 0,
        partition_id: String::new(),
        messages: messages.iter().map(message).collect(),
    }
}

const DONE: WordFate = WordFate::Counted { dead: false };

/// What is said of a message under a lease.
fn said(at: u64, lease: &str, message: &str, said: Said, fate: WordFate) -> Word {
    let (group, _) = lease.split_once('-').expect("a group and a moment");
    Word {
        span: span(at, at + 5),
        call: at,
        group: group.to_owned(),
        lane: LANE.to_owned(),
        lease: lease.to_owned(),
        id: message.to_owned(),
        said,
        fate,
    }
}

fn completed(at: u64, lease: &str, message: &str) -> Word {
    said(at, lease, message, Said::Completed, DONE)
}

fn moved(at: u64, to: Place) -> Move {
    Move { span: span(at, at + 5), group: "w".to_owned(), scope: "q".to_owned(), to }
}

/// Four messages; one duplicate; two groups that read everything, one of them in two portions.
fn fine() -> Log {
    let mut pushes: Vec<Push> = ["1", "2", "3", "4"].iter().zip(0..).map(|(name, at)| queued(10 * at, name)).collect();
    pushes.push(push(50, "t-2", PushFate::Duplicate("2".to_owned())));
    Log {
        pushes,
        deliveries: vec![got(100, "a", &["1", "2", "3", "4"]), got(100, "b", &["1", "2"]), got(120, "b", &["3", "4"])],
        words: vec![completed(110, "a-100", "4"), completed(110, "b-100", "2"), completed(130, "b-120", "4")],
        ..Log::default()
    }
}

/// The same, and a group that is moved once, reads two messages before that and `after` it, and completes them.
fn wandering(to: Place, after: &[&str]) -> Log {
    let mut log = fine();
    log.deliveries.extend([got(200, "w", &["1", "2"]), got(400, "w", after)]);
    log.words.extend([completed(210, "w-200", "2"), completed(410, "w-400", after[after.len() - 1])]);
    log.moves.push(moved(300, to));
    log
}

fn broken(log: &Log) -> BTreeSet<&'static str> {
    judge(log, &HashMap::from([("q".to_owned(), LIMIT)])).iter().map(|violation| violation.rule).collect()
}

/// A log, and what must be found in it: this rule among others.
#[track_caller]
fn assert_broken(log: &Log, rule: &str) {
    let found = broken(log);
    assert!(found.contains(rule), "{rule} is not in {found:?}");
}

/// Where nothing is wrong nothing is found: with retries, lost answers, late words and moves as they should be.
#[test]
fn what_is_right_is_not_accused() {
    assert_eq!(broken(&fine()), BTreeSet::new());
    for (to, after) in
        [(Place::Beginning, vec!["1", "2", "3", "4"]), (Place::Time("2026-2".to_owned()), vec!["2", "3", "4"])]
    {
        assert_eq!(broken(&wandering(to, &after)), BTreeSet::new());
    }
    let mut log = wandering(Place::End, &["5"]);
    log.pushes.push(queued(350, "5"));
    log.deliveries.extend([got(360, "a", &["5"]), got(360, "b", &["5"])]);
    assert_eq!(broken(&log), BTreeSet::new());

    // A lease ends, its messages come again, and whoever comes late is refused.
    let mut log = fine();
    log.deliveries.extend([got(200, "c", &["1", "2"]), got(1_300, "c", &["1", "2", "3", "4"])]);
    log.words.push(said(1_400, "c-200", "2", Said::Completed, WordFate::Over));
    assert_eq!(broken(&log), BTreeSet::new());

    // An answer is lost; what was asked again turns out to be a duplicate.
    let mut log = fine();
    log.pushes[3].fate = PushFate::Lost;
    log.pushes[3].span.heard = None;
    log.pushes.push(push(40, "t-4", PushFate::Duplicate("4".to_owned())));
    assert_eq!(broken(&log), BTreeSet::new());
}

/// Pushes: an id twice, a duplicate with another's id, one without an original, what was rolled back, what nobody pushed, what nobody saw.
#[test]
fn pushes_are_accused() {
    let one = "a transaction id is one message";
    for (transaction, fate) in [
        ("t-2", PushFate::Queued("2".to_owned())),
        ("t-2", PushFate::Duplicate("3".to_owned())),
        ("t-9", PushFate::Duplicate("9".to_owned())),
    ] {
        let mut log = fine();
        log.pushes.push(push(60, transaction, fate));
        assert_broken(&log, one);
    }
    let mut log = fine();
    log.pushes[4] = push(50, "t-2", PushFate::RolledBack);
    assert_eq!(broken(&log), BTreeSet::new(), "somebody else pushed it");
    log.pushes[1].fate = PushFate::RolledBack;
    assert_broken(&log, "nothing is invented");
    let mut log = fine();
    log.pushes.retain(|push| push.transaction != "t-4");
    assert_broken(&log, "nothing is invented");
    let mut log = fine();
    log.pushes.push(queued(60, "5"));
    assert_broken(&log, "what was pushed is delivered");
    let mut log = fine();
    log.deliveries[0].lane = "q/elsewhere".to_owned();
    assert_broken(&log, "nothing is invented");
}

/// Order: against the pushes, within a request, between groups, with a gap.
#[test]
fn disorder_is_accused() {
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
    assert_broken(&log, "all groups see one order");
    let mut log = fine();
    log.deliveries.push(got(200, "c", &["1", "2", "4"]));
    assert_broken(&log, "a lease has messages that follow each other");
}

/// Cursors: a message skipped, one that comes again, one that never comes, a group that is not where it was moved.
#[test]
fn cursors_that_jump_are_accused() {
    let mut log = fine();
    log.words.remove(1);
    assert_broken(&log, "nothing is skipped");
    let mut log = fine();
    log.words[1].fate = WordFate::Over;
    assert_broken(&log, "nothing is skipped");
    let mut log = fine();
    log.words[1].fate = WordFate::Lost;
    assert_eq!(broken(&log), BTreeSet::new(), "it may have counted");

    let mut log = fine();
    log.deliveries.push(got(140, "b", &["4"]));
    assert_broken(&log, "what was ended never comes again");
    let mut log = fine();
    log.deliveries.pop();
    log.words.pop();
    assert_broken(&log, "everything is delivered to every group");

    assert_broken(&wandering(Place::Beginning, &["2", "3", "4"]), "nothing is skipped");
    assert_broken(&wandering(Place::Beginning, &["1", "2", "3"]), "everything is delivered to every group");
    assert_broken(&wandering(Place::End, &["4"]), "a group that was moved is there");
    assert_broken(&wandering(Place::Time("2026-3".to_owned()), &["2", "3", "4"]), "a group that was moved is there");
    assert_broken(&wandering(Place::Time("2026-2".to_owned()), &["3", "4"]), "nothing is skipped");
    let mut log = wandering(Place::Beginning, &["1", "2", "3", "4"]);
    log.deliveries.push(got(420, "w", &["3"]));
    assert_broken(&log, "what was ended never comes again");
}

/// Leases: two at a time, also when the first was made to last; a word refused too early, and one that counts too late.
#[test]
fn leases_that_are_worth_nothing_are_accused() {
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
    log.words.push(said(300, "c-200", "1", Said::Retry, DONE));
    assert_eq!(broken(&log), BTreeSet::new(), "it was given back");
    let mut log = again(900);
    log.crashes.push(span(500, 600));
    assert_eq!(broken(&log), BTreeSet::new(), "it may have been forgotten");
    log.deliveries[3].lease_for = Duration::from_secs(5);
    log.deliveries[4].span = span(1_900, 1_905);
    log.crashes[0] = span(1_500, 1_600);
    assert_broken(&log, rule);

    let mut log = fine();
    log.words[0].fate = WordFate::Over;
    assert_broken(&log, "what is said under a lease that lasts counts");
    log.crashes.push(span(112, 114));
    assert_eq!(broken(&log), BTreeSet::new(), "it may have counted before");
    let mut log = again(1_250);
    log.words.push(completed(1_300, "c-200", "2"));
    assert_broken(&log, "what is said under a lease that is over changes nothing");
    log.words.push(completed(1_290, "c-1250", "4"));
    assert_eq!(broken(&log), BTreeSet::new(), "somebody else had said it, too");
}

/// A call in which a failure is passed over, and one in which something is put off for no reason.
#[test]
fn a_failure_that_is_passed_over_is_accused() {
    let rule = "what follows a failure in a call does not count";
    let call = |second| {
        let mut log = fine();
        log.words[0] = said(110, "a-100", "1", Said::Failed, DONE);
        log.words.push(Word { call: 110, span: log.words[0].span, ..said(110, "a-100", "2", Said::Completed, second) });
        let again = Delivery { retries: 1, ..got(150, "a", &["1", "2", "3", "4"]) };
        log.deliveries.push(again);
        log
    };
    assert_eq!(broken(&call(WordFate::Behind)), BTreeSet::new());
    assert_broken(&call(DONE), rule);
    let mut log = fine();
    log.words[0].fate = WordFate::Behind;
    assert_broken(&log, rule);
}

/// Dead letters: too early, too late, not listed, listed for nothing, listed twice; and a count that is wrong.
#[test]
fn dead_letters_that_were_not_earned_are_accused() {
    let dead = WordFate::Counted { dead: true };
    let letter = Dead { group: "a".to_owned(), lane: LANE.to_owned(), id: "1".to_owned() };
    // Fails, fails again, and is given up: one more than the limit.
    let given_up = || {
        let mut log = fine();
        log.words[0] = said(110, "a-100", "1", Said::Failed, DONE);
        log.deliveries.push(Delivery { retries: 1, ..got(150, "a", &["1", "2", "3", "4"]) });
        log.words.push(said(160, "a-150", "1", Said::Failed, dead));
        log.dead.push(letter.clone());
        log
    };
    assert_eq!(broken(&given_up()), BTreeSet::new());
    let earned = "a dead letter was refused once more than the limit";
    let mut log = given_up();
    log.words[0].fate = dead;
    assert_broken(&log, earned);
    let mut log = given_up();
    log.words[3].fate = DONE;
    assert_broken(&log, earned);

    let listed = "dead letters are exactly those given up";
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
    assert_broken(&log, "a delivery says how often its first message was refused");
}

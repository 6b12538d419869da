//! How likely which step is.
//!
//! The weights keep work moving, so that most sequences reach executions that end and begin anew, and leave room for
//! what a runtime does only by mistake: tokens that are expired or of another claim, events that clash, items in the
//! wrong queue.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::step::{
    Change, Fault, INSTANCES, KEYS, Kind, OWNERS, Pick, Query, Queue, Remove, Report, Route, SESSIONS, Step, TAGS,
    Tags, Turn, Versions, Which,
};

fn instance() -> impl Strategy<Value = usize> + Clone {
    0..INSTANCES.len()
}

/// What happens now and then.
fn rarely() -> impl Strategy<Value = bool> + Clone {
    prop::bool::weighted(0.2)
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        8 => Just(Kind::Start),
        3 => Just(Kind::ContinueAsNew),
        3 => Just(Kind::Raised),
        2 => Just(Kind::Completed),
        1 => Just(Kind::Failed),
        2 => Just(Kind::Timer),
        1 => Just(Kind::ChildCompleted),
        1 => Just(Kind::ChildFailed),
        1 => Just(Kind::Cancel),
        2 => Just(Kind::Queue),
        1 => Just(Kind::Activity),
    ]
}

fn queue() -> impl Strategy<Value = Queue> {
    prop_oneof![Just(Queue::Turns), Just(Queue::Work)]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        12 => (0..3_usize).prop_map(Pick::Live),
        3 => (0..6_usize).prop_map(Pick::Any),
        1 => (0..3_usize).prop_map(Pick::Foreign),
        1 => Just(Pick::Nonsense),
    ]
}

fn route() -> impl Strategy<Value = Route> + Clone {
    let some = |count| option::weighted(0.4, 0..count);
    (some(TAGS.len()), some(SESSIONS.len())).prop_map(|(tag, session)| Route { tag, session })
}

fn tags() -> impl Strategy<Value = Tags> {
    prop_oneof![
        3 => Just(Tags::Default),
        2 => (0..TAGS.len()).prop_map(Tags::One),
        3 => (0..TAGS.len()).prop_map(Tags::DefaultAnd),
        6 => Just(Tags::Any),
        1 => Just(Tags::Nothing),
    ]
}

fn versions() -> impl Strategy<Value = Versions> {
    prop_oneof![
        12 => Just(Versions::Any),
        2 => (1..4_u64).prop_map(Versions::UpTo),
        1 => (1..4_u64).prop_map(Versions::From),
        1 => Just(Versions::Nothing),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => Just(Change::Raised),
        4 => (route(), rarely()).prop_map(|(route, dropped)| Change::Schedule { route, dropped }),
        3 => (0..KEYS.len()).prop_map(|key| Change::Set { key }),
        1 => (0..KEYS.len()).prop_map(|key| Change::Clear { key }),
        1 => Just(Change::ClearAll),
        2 => any::<bool>().prop_map(|set| Change::Custom { set }),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let execution = prop_oneof![8 => Just(Which::Current), 2 => Just(Which::Next), 1 => Just(Which::Earlier)];
    let status = prop_oneof![
        8 => Just(None),
        1 => Just(Some("Completed")),
        1 => Just(Some("Failed")),
        2 => Just(Some("ContinuedAsNew")),
    ];
    let fault = prop_oneof![
        Just(Fault::Clash),
        Just(Fault::Twice),
        Just(Fault::NoId),
        Just(Fault::WorkForInstance),
        Just(Fault::MessageForWorker),
    ];
    let described = (execution, rarely(), rarely(), option::weighted(0.3, instance()), option::weighted(0.3, 1..4_u64));
    let sent = (vec((instance(), kind()), 0..3), vec(0..8_usize, 0..2));
    (described, vec(change(), 0..5), sent, status, option::weighted(0.1, fault)).prop_map(
        |((execution, named, gap, parent, pin), changes, (messages, cancel), status, fault)| Turn {
            execution,
            named,
            gap,
            parent,
            pin,
            changes,
            messages,
            cancel,
            status,
            fault,
        },
    )
}

fn query() -> impl Strategy<Value = Query> {
    prop_oneof![
        3 => instance().prop_map(|of| Query::Instance { of }),
        2 => (instance(), 1..4_u64).prop_map(|(of, execution)| Query::Execution { of, execution }),
        1 => (instance(), 0..3_u64).prop_map(|(of, seen)| Query::Custom { of, seen }),
        1 => (instance(), 0..KEYS.len()).prop_map(|(of, key)| Query::Key { of, key }),
        1 => Just(Query::Lists),
        1 => Just(Query::Figures),
    ]
}

fn remove() -> impl Strategy<Value = Remove> {
    let some = || vec(instance(), 0..3);
    let keep = || option::of(0..3_u32);
    prop_oneof![
        2 => (some(), any::<bool>()).prop_map(|(of, force)| Remove::Exactly { of, force }),
        2 => (instance(), any::<bool>()).prop_map(|(of, force)| Remove::Tree { of, force }),
        1 => (option::of(some()), any::<bool>()).prop_map(|(of, old)| Remove::Ended { of, old }),
        3 => (instance(), keep(), any::<bool>()).prop_map(|(of, keep, old)| Remove::Executions { of, keep, old }),
        1 => (keep(), any::<bool>(), option::of(1..3_u32))
            .prop_map(|(keep, old, limit)| Remove::AllExecutions { keep, old, limit }),
    ]
}

/// One step.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let given_up = || (queue(), pick(), any::<bool>(), any::<bool>());
    prop_oneof![
        1 => Just(Step::Nothing),
        10 => (instance(), kind(), rarely()).prop_map(|(to, kind, delayed)| Step::Send { to, kind, delayed }),
        3 => (instance(), route()).prop_map(|(of, route)| Step::SendWork { of, route }),
        14 => (versions(), any::<bool>()).prop_map(|(versions, long)| Step::FetchTurn { versions, long }),
        14 => (pick(), turn()).prop_map(|(lease, turn)| Step::AckTurn { lease, turn }),
        9 => (option::weighted(0.7, 0..OWNERS.len()), tags(), any::<bool>())
            .prop_map(|(owner, tags, long)| Step::FetchWork { owner, tags, long }),
        6 => (pick(), prop_oneof![Just(Report::Nothing), Just(Report::Completed), Just(Report::Failed), Just(Report::Raised)])
            .prop_map(|(lease, report)| Step::AckWork { lease, report }),
        4 => given_up().prop_map(|(queue, lease, delayed, uncounted)| Step::Abandon { queue, lease, delayed, uncounted }),
        2 => (queue(), pick(), any::<bool>()).prop_map(|(queue, lease, long)| Step::Renew { queue, lease, long }),
        2 => (vec(0..OWNERS.len(), 1..3), any::<bool>(), any::<bool>())
            .prop_map(|(owners, long, idle)| Step::RenewSessions { owners, long, idle }),
        1 => Just(Step::CleanSessions),
        1 => (instance(), rarely(), 0..3_usize, rarely())
            .prop_map(|(to, earlier, events, clash)| Step::Append { to, earlier, events, clash }),
        3 => any::<bool>().prop_map(|long| Step::Pass { long }),
        2 => given_up().prop_map(|(queue, lease, delayed, uncounted)| Step::Lapse { queue, lease, delayed, uncounted }),
        5 => query().prop_map(Step::Query),
        2 => remove().prop_map(Step::Remove),
    ]
}

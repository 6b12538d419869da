//! What a random sequence is made of: calls as plain data, with small numbers for whom and what. Which instance, which
//! lease and which event that is shows only when the step is taken, so that a sequence stays a sequence when it is made
//! smaller.

/// Few, so that calls meet; one with a name that needs care.
pub(super) const INSTANCES: [&str; 4] = ["a", "b", "c", "d/\"é'"];
pub(super) const TAGS: [&str; 2] = ["gpu", "mail"];
pub(super) const SESSIONS: [&str; 2] = ["s", "t"];
pub(super) const OWNERS: [&str; 2] = ["one", "two"];
pub(super) const KEYS: [&str; 3] = ["k", "l", "m"];

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// What a step becomes that a disagreement does not need.
    Nothing,
    Send {
        to: usize,
        kind: Kind,
        delayed: bool,
    },
    SendWork {
        of: usize,
        route: Route,
    },
    FetchTurn {
        versions: Versions,
        long: bool,
    },
    AckTurn {
        lease: Pick,
        turn: Turn,
    },
    FetchWork {
        owner: Option<usize>,
        tags: Tags,
        long: bool,
    },
    AckWork {
        lease: Pick,
        report: Report,
    },
    Abandon {
        queue: Queue,
        lease: Pick,
        delayed: bool,
        uncounted: bool,
    },
    Renew {
        queue: Queue,
        lease: Pick,
        long: bool,
    },
    RenewSessions {
        owners: Vec<usize>,
        long: bool,
        idle: bool,
    },
    CleanSessions,
    Append {
        to: usize,
        earlier: bool,
        events: usize,
        clash: bool,
    },
    /// Time passes: leases end, what was delayed is due.
    Pass {
        long: bool,
    },
    /// Time passes, and the holder of a lease that has ended abandons it before the next claim.
    Lapse {
        queue: Queue,
        lease: Pick,
        delayed: bool,
        uncounted: bool,
    },
    Query(Query),
    Remove(Remove),
}

/// Kinds of messages to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Start,
    ContinueAsNew,
    Completed,
    Failed,
    Timer,
    Raised,
    ChildCompleted,
    ChildFailed,
    Cancel,
    Queue,
    /// For a worker: no instance may get it.
    Activity,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Queue {
    Turns,
    Work,
}

/// Which lease, counted from the newest.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pick {
    /// One that has not ended.
    Live(usize),
    /// Any there ever was.
    Any(usize),
    /// One of the other queue.
    Foreign(usize),
    /// What is no token at all.
    Nonsense,
}

/// Where an activity is to be executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) tag: Option<usize>,
    pub(super) session: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Tags {
    Default,
    One(usize),
    DefaultAnd(usize),
    Any,
    Nothing,
}

/// Which pinned versions a dispatcher can continue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Versions {
    Any,
    UpTo(u64),
    From(u64),
    Nothing,
}

/// How an activity ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Report {
    Nothing,
    Completed,
    Failed,
    /// What does not end an activity.
    Raised,
}

/// What a turn decides.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) execution: Which,
    /// Named though its instance exists already.
    pub(super) named: bool,
    /// Its events leave out a number.
    pub(super) gap: bool,
    pub(super) parent: Option<usize>,
    pub(super) pin: Option<u64>,
    pub(super) changes: Vec<Change>,
    pub(super) messages: Vec<(usize, Kind)>,
    /// Activities of earlier turns to cancel.
    pub(super) cancel: Vec<usize>,
    pub(super) status: Option<&'static str>,
    pub(super) fault: Option<Fault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Current,
    Next,
    Earlier,
}

/// An event, and what comes with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Raised,
    /// An activity; `dropped`: cancelled in the same turn.
    Schedule {
        route: Route,
        dropped: bool,
    },
    Set {
        key: usize,
    },
    Clear {
        key: usize,
    },
    ClearAll,
    Custom {
        set: bool,
    },
}

/// Why a turn must be refused, changing nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// An event with such an id exists.
    Clash,
    Twice,
    NoId,
    WorkForInstance,
    MessageForWorker,
}

/// Questions that change nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Query {
    Instance { of: usize },
    Execution { of: usize, execution: u64 },
    Custom { of: usize, seen: u64 },
    Key { of: usize, key: usize },
    Lists,
    Figures,
}

/// What removes.
#[derive(Debug, Clone)]
pub(super) enum Remove {
    Exactly { of: Vec<usize>, force: bool },
    Tree { of: usize, force: bool },
    Ended { of: Option<Vec<usize>>, old: bool },
    Executions { of: usize, keep: Option<u32>, old: bool },
    AllExecutions { keep: Option<u32>, old: bool, limit: Option<u32> },
}

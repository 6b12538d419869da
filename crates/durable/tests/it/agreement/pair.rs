//! Both stores, side by side: every call goes to each, and the answers must be the same.
//!
//! What differs by nature is translated here. Tokens: a lease has one per store. Time: the model's clock stands still
//! but for a tick per step; when a step lets time pass, the model's clock is moved and every time in the tables is
//! moved back by as much, which has the same effect.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::providers::{Provider, ProviderAdmin, ProviderError, WorkItem};
use proptest::test_runner::TestCaseError;
use reveille_durable::{Options, PostgresProvider};
use reveille_durable_memory::{Clock, MemoryProvider, Polling};

use super::leases::{LeaseState, Leases, Token};
use super::step::{OWNERS, Pick};
use crate::fixture::Fixture;

/// `Err`: the stores disagree.
pub(super) type Verdict<T = ()> = Result<T, TestCaseError>;

const MINUTE: Duration = Duration::from_secs(60);
/// Time passes in steps of five minutes, and everything else lasts two or three minutes more than such a step: however
/// slow the test is, both stores agree on what is over.
pub(super) const PASS_SHORT: Duration = MINUTE.saturating_mul(15);
pub(super) const PASS_LONG: Duration = MINUTE.saturating_mul(40);
pub(super) const SHORT: Duration = MINUTE.saturating_mul(12);
pub(super) const LONG: Duration = MINUTE.saturating_mul(67);
pub(super) const DELAY: Duration = MINUTE.saturating_mul(27);
/// Never due together with what was delayed.
pub(super) const TIMER: Duration = MINUTE.saturating_mul(28);
/// What is older than this happened before time passed.
pub(super) const AGE: Duration = MINUTE.saturating_mul(3);
/// The model's clock moves by this before every step, because due times order what is due, and in PostgreSQL no two
/// steps have the same.
const TICK: Duration = Duration::from_millis(1);

/// What both stores are.
pub(super) trait Store: Provider + ProviderAdmin {}
impl<S: Provider + ProviderAdmin> Store for S {}

/// One of the two.
pub(super) struct Side<'a> {
    pub(super) store: &'a dyn Store,
    /// By the clock that its due times are compared with.
    pub(super) now_ms: u64,
    index: usize,
}

impl Side<'_> {
    pub(super) fn token<'t>(&self, token: &'t Token) -> &'t str {
        &token.0[self.index]
    }
}

/// What is known of a turn that was fetched.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) instance: String,
    pub(super) execution: u64,
}

/// Both stores, and what the sequence has done so far.
pub(super) struct Pair<'a> {
    fixture: &'a Fixture,
    pub(super) memory: MemoryProvider,
    pub(super) turns: Leases<Taken>,
    pub(super) work: Leases<WorkItem>,
    /// Instances that a message has started and no turn has named yet.
    pub(super) starting: HashSet<String>,
    /// Instances that were sent something delayed.
    pub(super) delayed: HashSet<String>,
    /// Activities there ever were: instance, execution, id.
    pub(super) activities: Vec<(String, u64, u64)>,
    /// Time that has passed.
    pub(super) passed: Duration,
    /// What becomes free again though it was due long ago is found by a provider within a second, but at once by one
    /// that has not claimed for leases of such a length: so whenever something may be, there is a new era, and each has
    /// its own length.
    era: u64,
    /// Makes every payload different.
    count: u64,
}

static ERAS: AtomicU64 = AtomicU64::new(0);

fn next_era() -> u64 {
    ERAS.fetch_add(1, Ordering::Relaxed)
}

/// The tables that a sequence fills.
const TABLES: [&str; 9] = [
    "instances",
    "executions",
    "history",
    "orchestrator_queue",
    "instance_locks",
    "worker_queue",
    "sessions",
    "kv_store",
    "kv_delta",
];
/// The columns that are compared with the time.
const TIMES: [(&str, &str); 7] = [
    ("orchestrator_queue", "visible_at"),
    ("instance_locks", "locked_until"),
    ("worker_queue", "visible_at"),
    ("worker_queue", "locked_until"),
    ("sessions", "locked_until"),
    ("sessions", "last_activity_at"),
    ("executions", "completed_at"),
];

impl<'a> Pair<'a> {
    /// A store that polls once per fetch: its answer is what it stores. Every ack waits for its commit, because the steps
    /// that let time pass move the times of the tables, and not those that the provider remembers.
    pub(super) async fn fixture() -> Fixture {
        Fixture::with_options(Options::default().pipelined_acks(0)).await
    }

    /// A store whose acks are pipelined.
    pub(super) async fn pipelining_fixture() -> Fixture {
        Fixture::with_options(Options::default()).await
    }

    /// Waits for the acks of all steps so far.
    pub(super) async fn after_acks(&self) {
        self.fixture.provider.flush().await;
    }

    /// Two empty stores.
    pub(super) async fn new(fixture: &'a Fixture) -> Pair<'a> {
        let tables = TABLES.map(|table| format!("{{schema}}.{table}")).join(", ");
        run(fixture, &format!("truncate {tables}")).await;
        Self::beside(fixture)
    }

    /// An empty model beside a store as it is.
    pub(super) fn beside(fixture: &'a Fixture) -> Pair<'a> {
        Pair {
            fixture,
            memory: MemoryProvider::with_clock(Polling::Short, Clock::stopped()),
            turns: Leases(Vec::new()),
            work: Leases(Vec::new()),
            starting: HashSet::new(),
            delayed: HashSet::new(),
            activities: Vec::new(),
            passed: Duration::ZERO,
            era: next_era(),
            count: 0,
        }
    }

    fn postgres(&self) -> &PostgresProvider {
        &self.fixture.provider
    }

    /// Text that no other payload has.
    pub(super) fn fresh(&mut self) -> String {
        self.count += 1;
        format!("n{}", self.count)
    }

    /// Asks both.
    pub(super) async fn both<T>(&self, ask: impl AsyncFn(Side<'_>) -> T) -> [T; 2] {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
        let postgres = ask(Side { store: self.postgres(), now_ms, index: 0 }).await;
        let memory = ask(Side { store: &self.memory, now_ms: self.memory.clock().now_ms(), index: 1 }).await;
        [postgres, memory]
    }

    /// Asks both the same question: the same answer, or errors that both mean forever.
    pub(super) async fn same<T: PartialEq + Debug>(
        &self,
        call: &str,
        ask: impl AsyncFn(Side<'_>) -> Result<T, ProviderError>,
    ) -> Verdict<Option<T>> {
        let [postgres, memory] = self.both(ask).await;
        let why = format!("\npostgres: {:?}\nmemory: {:?}", postgres.as_ref().err(), memory.as_ref().err());
        let kind = |answer: Result<T, ProviderError>| answer.map_err(|error| error.is_retryable());
        Ok(agree(&format!("{call}{why}"), kind(postgres), kind(memory))?.ok())
    }

    /// What a step means by a lease: its tokens, and where it is noted, if it is one of this queue.
    pub(super) fn token<T, F>(own: &Leases<T>, other: &Leases<F>, pick: Pick) -> Option<(Token, Option<usize>)> {
        match pick {
            Pick::Nonsense => Some((Token(["nonsense".to_owned(), "nonsense".to_owned()]), None)),
            Pick::Foreign(nth) => other.newest(nth).map(|token| (token.clone(), None)),
            _ => own.find(pick).map(|at| (own.0[at].token.clone(), Some(at))),
        }
    }

    /// A turn has ended: what came for its instance meanwhile is free, however long that took.
    pub(super) fn ended(&mut self, at: usize) {
        self.turns.0[at].state = LeaseState::Over;
        if self.turns.0[at].since < self.passed {
            self.era = next_era();
        }
    }

    pub(super) fn tick(&mut self) {
        self.memory.clock().advance(TICK);
    }

    /// Time passes. Leases that end by it are only [noted](Self::lapse) afterwards.
    pub(super) async fn pass(&mut self, by: Duration) {
        self.passed += by;
        self.era = next_era();
        self.memory.clock().advance(by);
        for (table, column) in TIMES {
            let sql = format!("update {{schema}}.{table} set {column} = {column} - interval '{} s'", by.as_secs());
            run(self.fixture, &sql).await;
        }
    }

    /// Notes which leases have ended. What is claimed again stands at its old due time in PostgreSQL and at the end of
    /// its lease in the model, and the contract asks for neither: the model puts it back to its old due time.
    pub(super) async fn lapse(&mut self) {
        for at in self.turns.lapsing(self.passed) {
            self.turns.0[at].state = LeaseState::Lapsed;
            // Deleted meanwhile, if it is an error.
            let _ = self.memory.abandon_orchestration_item(&self.turns.0[at].token.0[1], None, false).await;
        }
        for at in self.work.lapsing(self.passed) {
            self.work.0[at].state = LeaseState::Lapsed;
            let _ = self.memory.abandon_work_item(&self.work.0[at].token.0[1], None, false).await;
        }
    }

    /// How long a lease is to last that the `who`th asks for: what one worker may not take is no sign that there is
    /// nothing for another.
    pub(super) fn lease(&self, long: bool, who: usize) -> Duration {
        let length = self.era * (OWNERS.len() as u64 + 1) + who as u64;
        (if long { LONG } else { SHORT }) + Duration::from_millis(length)
    }

    /// Whether a message to an instance finds it running or about to.
    pub(super) async fn awaited(&self, instance: &str) -> bool {
        self.starting.contains(instance) || self.exists(instance).await
    }

    /// Whether a turn has named it.
    pub(super) async fn exists(&self, instance: &str) -> bool {
        self.memory.get_instance_info(instance).await.is_ok()
    }

    /// The last event of an execution; zero if there is none.
    pub(super) async fn last_event(&self, instance: &str, execution: u64) -> u64 {
        let history = self.memory.read_with_execution(instance, execution).await.expect("memory reads");
        history.last().map_or(0, |event| event.event_id)
    }
}

async fn run(fixture: &Fixture, sql: &str) {
    let sql = fixture.db.schema().sql(sql);
    sqlx::query(&sql).execute(fixture.provider.pool()).await.expect("a statement of the test itself");
}

/// Fails the sequence unless both are the same.
pub(super) fn agree<T: PartialEq + Debug>(what: &str, postgres: T, memory: T) -> Verdict<T> {
    if postgres == memory {
        return Ok(postgres);
    }
    Err(TestCaseError::fail(format!("{what}\n postgres answers {postgres:#?}\n the model answers {memory:#?}")))
}

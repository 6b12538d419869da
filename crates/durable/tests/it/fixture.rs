//! Providers for tests, each in a schema of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::provider_validations::ProviderFactory;
use duroxide::providers::Provider;
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::Database;
pub(crate) use reveille_pg::testing::{PATIENCE, eventually};
use reveille_pg::testing::{Proxy, TestDb};

/// A provider, and its schema.
pub(crate) struct Fixture {
    pub(crate) db: TestDb,
    pub(crate) provider: PostgresProvider,
}

impl Fixture {
    /// With long polling.
    pub(crate) async fn new() -> Fixture {
        Fixture::with(LongPollConfig::enabled()).await
    }

    pub(crate) async fn with(long_poll: LongPollConfig) -> Fixture {
        Fixture::with_options(Options::default().long_poll(long_poll)).await
    }

    /// With long polling; every ack waits for its commit.
    pub(crate) async fn without_pipelining() -> Fixture {
        Fixture::with_options(Options::default().long_poll(LongPollConfig::enabled()).pipelined_acks(0)).await
    }

    /// With these options, but for the schema.
    pub(crate) async fn with_options(options: Options) -> Fixture {
        let db = TestDb::new().await;
        let options = options.schema(db.schema().name());
        let provider = PostgresProvider::with_database(db.database().clone(), options).await;
        Fixture { db, provider: provider.expect("start a provider") }
    }
}

/// A further provider on a schema.
pub(crate) async fn provider(db: &TestDb, long_poll: LongPollConfig) -> PostgresProvider {
    let options = Options::default().schema(db.schema().name()).long_poll(long_poll);
    PostgresProvider::with_database(db.database().clone(), options).await.expect("start a provider")
}

/// What duroxide's validation makes its providers with: each has an empty schema.
pub(crate) struct Factory {
    long_poll: bool,
    made: Mutex<Vec<Arc<Fixture>>>,
}

impl Factory {
    pub(crate) fn new(long_poll: bool) -> Factory {
        Factory { long_poll, made: Mutex::default() }
    }

    fn last(&self) -> Arc<Fixture> {
        self.made.lock().expect("no panic").last().expect("a provider").clone()
    }
}

#[async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let config = LongPollConfig { enabled: self.long_poll, ..LongPollConfig::default() };
        let fixture = Arc::new(Fixture::with(config).await);
        // Some functions allow a fetch a tenth of a second: not the first of all, which makes the claim's plans, and
        // not one for which a connection is opened, whose login alone takes that long without optimization.
        let pool = fixture.provider.pool();
        let (one, two, three) = tokio::join!(pool.acquire(), pool.acquire(), pool.acquire());
        drop((one.expect("a connection"), two.expect("a second"), three.expect("a third")));
        let first = fixture.provider.fetch_orchestration_item(Duration::from_secs(1), Duration::ZERO, None).await;
        assert!(first.expect("a fetch").is_none(), "the store is empty");
        self.made.lock().expect("no panic").push(fixture.clone());
        Arc::new(fixture.provider.clone())
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn short_poll_threshold(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// In place, keeping count and ids: the provider must notice by itself.
    async fn corrupt_instance_history(&self, instance: &str) {
        let fixture = self.last();
        // The statement does not go through the provider, so it does not wait for pipelined acks.
        fixture.provider.flush().await;
        let sql = fixture
            .db
            .schema()
            .sql("update {schema}.history set events = '[{\"no\": \"event\"}]' where instance_id = $1");
        sqlx::query(&sql).bind(instance).execute(fixture.provider.pool()).await.expect("corrupt");
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let fixture = self.last();
        fixture.provider.flush().await;
        let sql = fixture.db.schema().sql(
            "select coalesce(max(q.attempt_count + coalesce(q.id = any (l.message_ids), false)::int), 0)
             from {schema}.orchestrator_queue q left join {schema}.instance_locks l on l.instance_id = q.instance_id
             where q.instance_id = $1",
        );
        let attempts: i32 =
            sqlx::query_scalar(&sql).bind(instance).fetch_one(fixture.provider.pool()).await.expect("attempts");
        attempts as u32
    }
}

/// The provider of another process: the same tables, without shared memory.
pub(crate) struct Elsewhere {
    pub(crate) provider: PostgresProvider,
    _way: Proxy,
}

impl Elsewhere {
    pub(crate) async fn start(db: &TestDb, long_poll: LongPollConfig) -> Elsewhere {
        // Another address makes it another database for objects that exist once per database.
        let way = Proxy::start(db).await;
        let database =
            Database::connect_lazy(way.url(), reveille_pg::Options::default()).expect("a pool through a proxy");
        let options = Options::default().schema(db.schema().name()).long_poll(long_poll);
        let provider = PostgresProvider::with_database(database, options).await.expect("start a provider");
        Elsewhere { provider, _way: way }
    }
}

//! The engine of one database and schema: opening and closing it, its options.

use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Component, Database, Migrator, Schema};
use reveille_wake::{Channel, Consumer, Payload, Wake, Writer, WriterOptions, channel_name};
use sqlx::Row;
use uuid::Uuid;

use crate::claim::Claims;
use crate::claim::release::Releases;
use crate::claim::renew::Renewals;
use crate::claim::token::Token;
use crate::claim::workers::ClaimingWorkers;
use crate::complete::Reports;
use crate::error::Result;
use crate::events::change_watch::ChangeWatches;
use crate::events::{Meter, NAMESPACE_CREATED, TaskEvents, WaitingClaims, outside_channel, publish_task_events};
use crate::namespace::Namespaces;
use crate::operate::Operations;
use crate::provider::deliver::Deliveries;
use crate::provider::publish::Publishes;
use crate::provider::{ProviderOptions, Providers};
use crate::queries::{FUNCTIONS, MIGRATIONS, Queries};
use crate::query::figures::Figures;
use crate::schedule::{Advances, DueSchedule};
use crate::task::due::Due;
use crate::task::submit::Submits;
use crate::task::wait::Watches;
use crate::template::cache::TemplateCache;

/// The channel of due steps.
const STEPS: &str = "flow";
/// The channel of leases whose end the engine watches.
const LEASES: &str = "flow_leases";
/// The channel of changes of watched tasks.
const WATCH: &str = "flow_watch";

/// The channel of created and changed namespaces.
const NAMESPACES: &str = "flow_namespaces";

/// The channel of steps that were sent to another queue.
const DELIVERIES: &str = "flow_deliveries";

/// The options. Start with `Options::default()`.
#[derive(Clone)]
pub struct Options {
    /// The options of the wake engine: limits on waiters, and how they are woken.
    pub wake: reveille_wake::Options,
    /// The entry of a template's `environments` that applies when it is registered.
    pub environment: Option<String>,
    /// How long a write is retried while the database is unavailable.
    pub give_up_after: Duration,
    /// The options of the queue providers.
    pub providers: ProviderOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            wake: reveille_wake::Options::default(),
            environment: None,
            give_up_after: Duration::from_secs(30),
            providers: ProviderOptions::default(),
        }
    }
}

/// The engine of one database and schema. Cheap to clone; all clones share their state.
#[derive(Clone)]
pub struct Flow {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) db: Database,
    pub(crate) schema: Schema,
    pub(crate) wake: Wake,
    pub(crate) steps_channel: Channel,
    pub(crate) meter: Arc<Meter>,
    pub(crate) figures: reveille_wake::Snapshot<Figures>,
    pub(crate) task_events: Arc<TaskEvents>,
    pub(crate) waiting: WaitingClaims,
    pub(crate) claiming_workers: ClaimingWorkers,
    pub(crate) environment: Option<String>,
    pub(crate) templates: TemplateCache,
    pub(crate) namespaces: Namespaces,
    pub(crate) change_watches: Consumer<ChangeWatches>,
    pub(crate) sql: Queries,
    pub(crate) submits: Writer<Submits>,
    pub(crate) claims: Consumer<Claims>,
    pub(crate) reports: Writer<Reports>,
    pub(crate) operations: Writer<Operations>,
    pub(crate) renewals: Writer<Renewals>,
    pub(crate) leases: Consumer<Due<Token>>,
    pub(crate) leases_channel: Channel,
    /// Tasks that may have exceeded a time limit.
    pub(crate) overdue: Consumer<Due<Uuid>>,
    /// Whether there are tasks whose retention is over.
    pub(crate) retention: Consumer<Due<()>>,
    pub(crate) retention_channel: Channel,
    pub(crate) overdue_channel: Channel,
    pub(crate) watches: Consumer<Watches>,
    pub(crate) schedules: Consumer<Due<DueSchedule>>,
    pub(crate) advances: Writer<Advances>,
    pub(crate) schedules_channel: Channel,
    pub(crate) providers: Arc<Providers>,
    pub(crate) publishes: Consumer<Publishes>,
    pub(crate) publish_lease: Duration,
    pub(crate) deliveries: Consumer<Deliveries>,
}

impl Flow {
    /// Migrates the schema and starts the engine.
    ///
    /// # Errors
    /// If the database cannot be reached or the schema cannot be migrated. The message says what to do.
    pub async fn open(db: Database, schema: Schema, options: Options) -> Result<Flow> {
        Migrator::new(&schema, Self::components(&schema)).run(&db).await?;
        Ok(Self::start(&db, &schema, options))
    }

    /// Starts the engine on a schema that is migrated, or will be before it is used. Returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, options: Options) -> Flow {
        let wake = Wake::start(db, schema, options.wake);
        let channel = wake.channel(STEPS, Payload::Keys);
        let watch_channel = wake.channel(WATCH, Payload::Keys);
        let leases_channel = wake.channel(LEASES, Payload::Due);
        let overdue_channel = wake.channel("flow_overdue", Payload::Due);
        let schedules_channel = wake.channel("flow_schedules", Payload::Due);
        let namespaces_channel = wake.channel(NAMESPACES, Payload::Empty);
        let writer_options = WriterOptions { give_up_after: options.give_up_after, ..WriterOptions::default() };
        let leases = Due {
            channel: leases_channel.clone(),
            find: schema.sql(reveille_pg::statement!("ended_leases")),
            any: schema.sql(reveille_pg::statement!("any_ended_lease")),
            read: Token::of,
        };
        let overdue = Due {
            channel: overdue_channel.clone(),
            find: schema.sql(reveille_pg::statement!("due_tasks")),
            any: schema.sql(reveille_pg::statement!("any_due_task")),
            read: |row| row.try_get("id"),
        };
        let retention_channel = wake.channel("flow_retention", Payload::Due);
        let retention = Due {
            channel: retention_channel.clone(),
            find: schema.sql(reveille_pg::statement!("expired_tasks")),
            any: schema.sql(reveille_pg::statement!("any_expired_task")),
            read: |_| Ok(()),
        };
        let schedules = Due {
            channel: schedules_channel.clone(),
            find: schema.sql(reveille_pg::statement!("claim_schedules")),
            any: schema.sql(reveille_pg::statement!("any_due_schedule")),
            read: DueSchedule::of,
        };
        let meter = Arc::new(Meter::new());
        let namespaces = Namespaces::new(namespaces_channel.clone());
        let (task_events, events) = TaskEvents::new(namespaces.subscribe(), meter.clone());
        let task_events = Arc::new(task_events);
        let deliveries_channel = wake.channel(DELIVERIES, Payload::Keys);
        let releases = Arc::new(Releases::new(schema, channel.clone()));
        let change_watches =
            ChangeWatches::new(schema, namespaces_channel, channel.clone(), deliveries_channel.clone());
        let change_watches = wake.consumer("change_watches", change_watches);
        let lease = options.providers.publish_lease;
        let providers = Arc::new(Providers::new(db, schema, &options.providers, deliveries_channel, &change_watches));
        let claims = Claims::new(db.clone(), schema, channel.clone(), releases.clone(), meter.clone());
        let claims = wake.consumer("steps", claims);
        let inner = Inner {
            publishes: wake.consumer("publish", Publishes::new(schema, channel.clone(), lease)),
            deliveries: wake.consumer("deliveries", Deliveries::new(schema, providers.clone(), releases)),
            providers,
            publish_lease: lease,
            environment: options.environment,
            templates: TemplateCache::default(),
            change_watches,
            namespaces,
            waiting: WaitingClaims::default(),
            claiming_workers: ClaimingWorkers::default(),
            steps_channel: channel.clone(),
            sql: Queries::new(schema),
            figures: reveille_wake::Snapshot::default(),
            submits: wake.writer(
                "submit",
                Submits::new(schema, task_events.clone(), channel.clone(), overdue_channel.clone(), claims.clone()),
                writer_options.clone(),
            ),
            operations: wake.writer(
                "operate",
                Operations::new(
                    schema,
                    task_events.clone(),
                    channel.clone(),
                    watch_channel.clone(),
                    overdue_channel.clone(),
                ),
                Operations::alone(writer_options.clone()),
            ),
            reports: wake.writer(
                "complete",
                Reports::new(
                    schema,
                    task_events.clone(),
                    channel,
                    watch_channel.clone(),
                    leases_channel.clone(),
                    claims.clone(),
                ),
                writer_options.clone(),
            ),
            claims,
            renewals: wake.writer("renew", Renewals::new(schema), writer_options.clone()),
            leases: wake.consumer("leases", leases),
            overdue: wake.consumer("overdue", overdue),
            retention: wake.consumer("retention", retention),
            retention_channel,
            overdue_channel,
            leases_channel,
            watches: wake.consumer("watch", Watches::new(schema, watch_channel)),
            schedules: wake.consumer("schedules", schedules),
            advances: wake.writer("advance", Advances::new(schema, schedules_channel.clone()), writer_options),
            schedules_channel,
            db: db.clone(),
            schema: schema.clone(),
            wake,
            meter,
            task_events,
        };
        let inner = Arc::new(inner);
        tokio::spawn(publish_task_events(Arc::downgrade(&inner), events));
        Flow { inner }
    }

    /// The database objects of this crate and the wake engine, in order.
    pub fn components(schema: &Schema) -> Vec<Component> {
        // Functions notify for changes that only the database knows.
        let literal = |name: String| format!("'{}'", name.replace('\'', "''"));
        let channel = |suffix| literal(channel_name(schema.name(), suffix));
        let vars = [
            ("channel", STEPS),
            ("leases", LEASES),
            ("watch", WATCH),
            ("namespaces", NAMESPACES),
            ("deliveries", DELIVERIES),
        ];
        let mut vars = vars.map(|(name, suffix)| (name.to_owned(), channel(suffix))).to_vec();
        vars.push(("created".to_owned(), literal(outside_channel(schema.name(), NAMESPACE_CREATED, None))));
        vars.push(("index_plans".to_owned(), reveille_wake::INDEX_PLANS.to_owned()));
        let flow = Component { name: "flow", migrations: MIGRATIONS, functions: FUNCTIONS, vars };
        vec![Wake::component(), flow]
    }

    /// The state of the wake engine.
    pub fn health(&self) -> reveille_wake::Health {
        self.inner.wake.health()
    }

    /// The counters of step claims since the start.
    pub fn claims(&self) -> reveille_wake::Counts {
        self.inner.claims.counts()
    }

    /// The counters of claims of due schedules since the start.
    pub fn schedule_claims(&self) -> reveille_wake::Counts {
        self.inner.schedules.counts()
    }

    /// Ends every wait as if its deadline had passed and rejects new ones. Returns when steps that were claimed for no
    /// waiter are released.
    pub async fn close(&self) {
        let Inner { claims, change_watches, leases, overdue, retention, .. } = &*self.inner;
        let Inner { watches, schedules, publishes, deliveries, .. } = &*self.inner;
        let timers = async { tokio::join!(leases.close(), overdue.close(), retention.close()) };
        let own = async { tokio::join!(timers, schedules.close(), publishes.close()) };
        tokio::join!(claims.close(), deliveries.close(), watches.close(), change_watches.close(), own);
    }

    /// Returns when all pending notifications for other processes have been sent.
    pub async fn flush(&self) {
        self.inner.wake.flush().await;
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("db", &self.inner.db).field("schema", &self.inner.schema).finish()
    }
}

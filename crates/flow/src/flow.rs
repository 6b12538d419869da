//! The tasks of one database and schema: how they are opened, and what they hold.

use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Component, Database, Migrator, Schema};
use reveille_wake::{Channel, Consumer, Payload, Wake, Writer, WriterOptions, channel_name};
use sqlx::Row;
use uuid::Uuid;

use crate::catalog::Catalog;
use crate::claim::Claims;
use crate::claim::renew::Renewals;
use crate::claim::token::Token;
use crate::claim::unanswered::UnansweredClaims;
use crate::complete::Reports;
use crate::error::Result;
use crate::event_driven::{Meter, NAMESPACE_CREATED, News, Waiting, outside_channel, tell_news};
use crate::events::change_watch::ChangeWatches;
use crate::figures::Figures;
use crate::namespace::Namespaces;
use crate::operate::Operations;
use crate::provider::deliver::Deliveries;
use crate::provider::publish::Publishes;
use crate::provider::{ProviderOptions, Providers};
use crate::queries::{FUNCTIONS, MIGRATIONS, Queries};
use crate::schedule::{Advances, DueSchedule};
use crate::task::due::Due;
use crate::task::submit::Submits;
use crate::task::wait::Watches;

/// Channels: that steps may be due, and that leases end which the engine watches.
const STEPS: &str = "flow";
const LEASES: &str = "flow_leases";
/// And that a task that somebody watches has gone on.
const WATCH: &str = "flow_watch";

/// And that a namespace was made or changed.
const NAMESPACES: &str = "flow_namespaces";

/// And that steps were sent through another queue.
const DELIVERIES: &str = "flow_deliveries";

/// Everything that can be set. `Options::default()` is what to start with.
#[derive(Clone)]
pub struct Options {
    /// About waiting: how many may, and how they are woken.
    pub wake: reveille_wake::Options,
    /// Which of the `environments` of a template counts when it is registered.
    pub environment: Option<String>,
    /// How long a write is tried while the database is away.
    pub give_up_after: Duration,
    /// About queues beside the tables.
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

/// The tasks of one database and schema. Cheap to clone; all clones are one.
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
    pub(crate) news: Arc<News>,
    pub(crate) waiting: Waiting,
    pub(crate) environment: Option<String>,
    pub(crate) catalog: Catalog,
    pub(crate) namespaces: Namespaces,
    pub(crate) change_watches: Consumer<ChangeWatches>,
    pub(crate) sql: Queries,
    pub(crate) submits: Writer<Submits>,
    pub(crate) claims: Consumer<Claims>,
    pub(crate) reports: Writer<Reports>,
    pub(crate) acts: Writer<Operations>,
    pub(crate) renewals: Writer<Renewals>,
    pub(crate) leases: Consumer<Due<Token>>,
    pub(crate) leases_channel: Channel,
    /// Tasks that may have taken too long.
    pub(crate) overdue: Consumer<Due<Uuid>>,
    /// That tasks have been over for longer than they are kept.
    pub(crate) retention: Consumer<Due<()>>,
    pub(crate) retention_channel: Channel,
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
    /// Opens the tasks of a schema and brings it up to date.
    ///
    /// # Errors
    /// If the database cannot be reached or the schema not brought up to date; the message says what to do.
    pub async fn open(db: Database, schema: Schema, options: Options) -> Result<Flow> {
        Migrator::new(&schema, Self::components(&schema)).run(&db).await?;
        Ok(Self::start(&db, &schema, options))
    }

    /// Opens the tasks of a schema that is up to date, or will be when they are used. Returns at once.
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
        let flying = WriterOptions { give_up_after: options.give_up_after, ..WriterOptions::default() };
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
        let (news, words) = News::new(namespaces.subscribe(), meter.clone());
        let news = Arc::new(news);
        let deliveries_channel = wake.channel(DELIVERIES, Payload::Keys);
        let lost = Arc::new(UnansweredClaims::new(schema, channel.clone()));
        let change_watches =
            ChangeWatches::new(schema, namespaces_channel, channel.clone(), deliveries_channel.clone());
        let change_watches = wake.consumer("change_watches", change_watches);
        let lease = options.providers.publish_lease;
        let providers = Arc::new(Providers::new(db, schema, &options.providers, deliveries_channel, &change_watches));
        let inner = Inner {
            publishes: wake.consumer("publish", Publishes::new(schema, channel.clone(), lease)),
            deliveries: wake.consumer("deliveries", Deliveries::new(schema, providers.clone(), lost.clone())),
            providers,
            publish_lease: lease,
            environment: options.environment,
            catalog: Catalog::default(),
            change_watches,
            namespaces,
            waiting: Waiting::default(),
            steps_channel: channel.clone(),
            sql: Queries::new(schema),
            figures: reveille_wake::Snapshot::default(),
            submits: wake.writer(
                "submit",
                Submits::new(schema, news.clone(), channel.clone(), overdue_channel.clone()),
                flying.clone(),
            ),
            claims: wake.consumer("steps", Claims::new(db.clone(), schema, channel.clone(), lost, meter.clone())),
            acts: wake.writer(
                "operate",
                Operations::new(schema, news.clone(), channel.clone(), watch_channel.clone(), overdue_channel.clone()),
                Operations::alone(flying.clone()),
            ),
            reports: wake.writer(
                "settle",
                Reports::new(schema, news.clone(), channel, watch_channel.clone(), leases_channel.clone()),
                flying.clone(),
            ),
            renewals: wake.writer("renew", Renewals::new(schema), flying.clone()),
            leases: wake.consumer("leases", leases),
            overdue: wake.consumer("overdue", overdue),
            retention: wake.consumer("retention", retention),
            retention_channel,
            leases_channel,
            watches: wake.consumer("watch", Watches::new(schema, watch_channel)),
            schedules: wake.consumer("schedules", schedules),
            advances: wake.writer("advance", Advances::new(schema, schedules_channel.clone()), flying),
            schedules_channel,
            db: db.clone(),
            schema: schema.clone(),
            wake,
            meter,
            news,
        };
        let inner = Arc::new(inner);
        tokio::spawn(tell_news(Arc::downgrade(&inner), words));
        Flow { inner }
    }

    /// What this crate and its engine need in a schema, in order.
    pub fn components(schema: &Schema) -> Vec<Component> {
        // What only the database knows is rung there.
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

    /// How the engine is doing.
    pub fn health(&self) -> reveille_wake::Health {
        self.inner.wake.health()
    }

    /// What claims have counted since the start.
    pub fn claims(&self) -> reveille_wake::Counts {
        self.inner.claims.counts()
    }

    /// What looks for schedules that are due have counted since the start.
    pub fn schedule_looks(&self) -> reveille_wake::Counts {
        self.inner.schedules.counts()
    }

    /// Ends every wait, as if its time were up, refuses new ones, and returns when what was claimed for nobody is back.
    pub async fn close(&self) {
        let Inner { claims, change_watches, leases, overdue, retention, .. } = &*self.inner;
        let Inner { watches, schedules, publishes, deliveries, .. } = &*self.inner;
        let timers = async { tokio::join!(leases.close(), overdue.close(), retention.close()) };
        let own = async { tokio::join!(timers, schedules.close(), publishes.close()) };
        tokio::join!(claims.close(), deliveries.close(), watches.close(), change_watches.close(), own);
    }

    /// Returns when every ring for other processes has been sent.
    pub async fn flush(&self) {
        self.inner.wake.flush().await;
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("db", &self.inner.db).field("schema", &self.inner.schema).finish()
    }
}

//! `GET /v1/queues`, `GET /v1/queues/{queue}`.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Path, Principal, Query, Role, Timestamp};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{limit, no_queue};
use crate::admin::configure::Settings;
use crate::admin::queue_pages::{QueueFilter, QueueSummary};
use crate::consume::pop::Subscription;
use crate::groups::group::Group;
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one))
}

/// A queue with its backlog.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueSummary)]
pub(super) struct Summary {
    id: String,
    name: String,
    namespace: String,
    task: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Since when it delivers nothing, to any group.
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_at: Option<Timestamp>,
    /// Its partitions; beyond 20 000 they are not counted: then it is 20 001, and the numbers of messages are null.
    partitions: u64,
    /// Its consumer groups, and those of them that are paused.
    groups: u64,
    paused_groups: u64,
    /// All stored messages. A deleted message counts until its segment is deleted.
    messages: Option<u64>,
    /// Those that a consumer group has not consumed; without groups, all.
    depth: Option<u64>,
    /// Those of them that are leased.
    leased: Option<u64>,
    /// When the oldest of them was stored.
    #[schema(value_type = Option<String>, format = DateTime)]
    oldest_at: Option<Timestamp>,
    /// Its dead letters, up to 10 000.
    dead_letters: u64,
    /// Messages per second at the server that answers, of the last ten seconds or so.
    pushed_per_second: f64,
    delivered_per_second: f64,
    acked_per_second: f64,
}

impl Summary {
    fn of(queues: &Queues, queue: &QueueSummary) -> Summary {
        let rates = queues.rates(&queue.name);
        // Tenths are enough.
        let rounded = |rate: f64| (rate * 10.0).round() / 10.0;
        Summary {
            id: queue.id.to_string(),
            name: queue.name.clone(),
            namespace: queue.namespace.clone(),
            task: queue.task.clone(),
            created_at: Timestamp(queue.created_at),
            paused_at: queue.paused_at.map(Timestamp),
            partitions: queue.partitions,
            groups: queue.groups,
            paused_groups: queue.paused_groups,
            messages: queue.backlog.map(|backlog| backlog.messages),
            depth: queue.backlog.map(|backlog| backlog.depth),
            leased: queue.backlog.map(|backlog| backlog.leased),
            oldest_at: queue.backlog.and_then(|backlog| backlog.oldest_at).map(Timestamp),
            dead_letters: queue.dead_letters,
            pushed_per_second: rounded(rates.pushed),
            delivered_per_second: rounded(rates.delivered),
            acked_per_second: rounded(rates.acked),
        }
    }
}

/// A page of queues.
#[derive(Serialize, ToSchema)]
#[schema(as = QueuePage)]
struct SummaryPage {
    queues: Vec<Summary>,
    /// The `after` of the next page, if there is more.
    next: Option<String>,
}

/// The options of a queue, with the names that `POST /api/v1/configure` takes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueSettings)]
struct Options {
    lease_time: i32,
    retry_limit: i32,
    /// Null: never set, so there is no delay.
    retry_delay: Option<i32>,
    max_size: i64,
    /// Null: never set, so messages do not expire.
    ttl: Option<i32>,
    dead_letter_queue: bool,
    dlq_after_max_retries: bool,
    priority: i32,
    delayed_processing: i32,
    window_buffer: i32,
    retention_seconds: i32,
    completed_retention_seconds: i32,
    retention_enabled: bool,
    encryption_enabled: bool,
    max_wait_time_seconds: i32,
    charge_expired_leases: bool,
    consumed_retention_seconds: i32,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            lease_time: settings.lease_seconds,
            retry_limit: settings.retry_limit,
            retry_delay: settings.retry_delay_ms,
            max_size: settings.max_size,
            ttl: settings.ttl_seconds,
            dead_letter_queue: settings.dead_letter_queue,
            dlq_after_max_retries: settings.dlq_after_max_retries,
            priority: settings.priority,
            delayed_processing: settings.delayed_processing_seconds,
            window_buffer: settings.window_buffer_seconds,
            retention_seconds: settings.retention_seconds,
            completed_retention_seconds: settings.completed_retention_seconds,
            retention_enabled: settings.retention_enabled,
            encryption_enabled: settings.encryption_enabled,
            max_wait_time_seconds: settings.max_wait_time_seconds,
            charge_expired_leases: settings.charge_expired_leases,
            consumed_retention_seconds: settings.consumed_retention_seconds,
        }
    }
}

/// A consumer group of a queue.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueGroup)]
struct Reader {
    name: String,
    /// Where it began: `all`, `new` or `timestamp`.
    subscription: &'static str,
    #[schema(value_type = Option<String>, format = DateTime)]
    subscribed_from: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Since when it gets nothing.
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_at: Option<Timestamp>,
    partitions: u64,
    /// The partitions with messages that it has not consumed.
    lagging_partitions: u64,
    /// Messages that it has not consumed, including leased ones, and the age of the oldest.
    lag: u64,
    lag_seconds: f64,
    /// Its leased partitions.
    leases: u64,
    /// The time of its last pop with messages.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_pop_at: Option<Timestamp>,
}

impl From<Group> for Reader {
    fn from(group: Group) -> Reader {
        let (subscription, since) = match group.subscription {
            Subscription::All => ("all", None),
            Subscription::New => ("new", None),
            Subscription::Since(since) => ("timestamp", Some(since)),
        };
        Reader {
            name: group.name,
            subscription,
            subscribed_from: since.map(Timestamp),
            created_at: Timestamp(group.created_at),
            paused_at: group.paused_at.map(Timestamp),
            partitions: group.partitions,
            lagging_partitions: group.lagging_partitions,
            lag: group.lag,
            lag_seconds: group.lag_seconds,
            leases: group.leases,
            last_pop_at: group.read_at.map(Timestamp),
        }
    }
}

/// A queue with its options and consumer groups.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueWithGroups)]
struct Detail {
    #[serde(flatten)]
    queue: Summary,
    options: Options,
    /// Its consumer groups, by name. `__QUEUE_MODE__` is reading without a group.
    consumer_groups: Vec<Reader>,
}

/// A filter and a page of queues.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Parameters {
    /// Part of the name, in upper or lower case.
    #[param(value_type = Option<Name>)]
    search: Option<String>,
    /// Those of this namespace.
    #[param(value_type = Option<Name>)]
    namespace: Option<String>,
    /// The last name of the page before.
    #[param(value_type = Option<Name>)]
    after: Option<String>,
    /// The most queues; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Queues with their backlogs and rates, in order of their names: those that the client may see. A page ends early if its queues have many partitions.
#[utoipa::path(
    get, path = "/queues", tag = "queues", params(Parameters),
    responses(
        (status = 200, description = "The queues", body = SummaryPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
async fn list(State(queues): State<Queues>, principal: Principal, query: Query) -> Result<Json<SummaryPage>, ApiError> {
    let filter = QueueFilter {
        search: query.name("search"),
        namespace: query.name("namespace"),
        like: principal.queues(Role::Viewer).like(),
        ..QueueFilter::default()
    };
    let page = queues.queues_after(&filter, query.text("after"), limit(&query)?).await?;
    let rows = page.rows.iter().map(|queue| Summary::of(&queues, queue)).collect();
    Ok(Json(SummaryPage { queues: rows, next: page.next }))
}

/// A queue with its options and its consumer groups.
#[utoipa::path(
    get, path = "/queues/{queue}", tag = "queues",
    params(("queue" = Name, Path, description = "The queue")),
    responses(
        (status = 200, description = "The queue", body = Detail),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
    )
)]
async fn one(State(queues): State<Queues>, Path(queue): Path<String>) -> Result<Json<Detail>, ApiError> {
    let summary = queues.queue_summary(&queue).await?.ok_or_else(|| no_queue(&queue))?;
    let groups = queues.groups(None, Some(&queue)).await?;
    Ok(Json(Detail {
        queue: Summary::of(&queues, &summary),
        options: (&summary.settings).into(),
        consumer_groups: groups.into_iter().map(Into::into).collect(),
    }))
}

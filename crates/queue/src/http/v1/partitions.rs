//! `GET /v1/queues/{queue}/partitions`.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Path, Query, Timestamp};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{limit, no_queue, word};
use crate::admin::queue_pages::PartitionFilter;
use crate::admin::resources as engine;
use crate::http::api_error::invalid;
use crate::http::schema::Name;
use crate::queues::Queues;

const STATES: [(&str, PartitionFilter); 3] = [
    ("leased", PartitionFilter::Leased),
    ("waiting", PartitionFilter::Waiting),
    ("retrying", PartitionFilter::Retrying),
];

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A partition with the positions of its consumer groups.
#[derive(Serialize, ToSchema)]
#[schema(as = QueuePartition)]
struct Partition {
    id: String,
    name: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last push.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_push_at: Option<Timestamp>,
    /// The offset of its first message, and of the next one to be pushed.
    first_offset: i64,
    next_offset: i64,
    cursors: Vec<Cursor>,
}

/// The position of a consumer group in a partition.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueCursor)]
struct Cursor {
    group: String,
    /// The offset of the first message that it has not consumed.
    position: i64,
    /// The number of messages that it has not consumed, and the age of the first.
    lag: u64,
    lag_seconds: f64,
    /// The lease of the consumer that has the partition, the number of leased messages, and its end.
    lease_id: Option<String>,
    leased: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    leased_until: Option<Timestamp>,
    /// When it can be claimed next: at the end of the lease, or when a delayed or failed message is due. Null: after
    /// the next push.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// How often the first message has been retried.
    retries: u32,
    /// The time of its last pop with messages.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_pop_at: Option<Timestamp>,
}

impl From<engine::CursorState> for Cursor {
    fn from(cursor: engine::CursorState) -> Cursor {
        let due_at = cursor.due_at.map(Timestamp);
        Cursor {
            group: cursor.group,
            position: cursor.position,
            lag: cursor.lag,
            lag_seconds: cursor.lag_seconds,
            leased: cursor.leased,
            leased_until: cursor.lease_id.and(due_at),
            lease_id: cursor.lease_id.map(|lease| lease.to_string()),
            due_at,
            retries: cursor.retries,
            last_pop_at: cursor.read_at.map(Timestamp),
        }
    }
}

impl From<engine::PartitionState> for Partition {
    fn from(partition: engine::PartitionState) -> Partition {
        Partition {
            id: partition.id.to_string(),
            name: partition.name,
            created_at: Timestamp(partition.created_at),
            last_push_at: partition.pushed_at.map(Timestamp),
            first_offset: partition.first_offset,
            next_offset: partition.head,
            cursors: partition.cursors.into_iter().map(Into::into).collect(),
        }
    }
}

/// A page of partitions.
#[derive(Serialize, ToSchema)]
#[schema(as = QueuePartitionPage)]
struct PartitionPage {
    partitions: Vec<Partition>,
    /// The `after` of the next page, if there may be more.
    next: Option<String>,
}

/// A filter and a page of partitions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Parameters {
    /// The partition with this name.
    #[param(value_type = Option<Name>)]
    partition: Option<String>,
    /// Those that a group has leased (`leased`), has not consumed (`waiting`), or whose next message it retries
    /// (`retrying`). A page looks at 5 000 partitions, and may be short.
    #[param(value_type = Option<crate::http::schema::QueuePartitionState>)]
    state: Option<String>,
    /// The last partition of the page before: `next`.
    #[param(value_type = Option<reveille_web::Id>)]
    after: Option<String>,
    /// The most partitions; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Partitions of a queue with the positions and leases of their consumer groups, in the order of their creation.
#[utoipa::path(
    get, path = "/queues/{queue}/partitions", tag = "queues",
    params(("queue" = Name, Path, description = "The queue"), Parameters),
    responses(
        (status = 200, description = "The partitions", body = PartitionPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
    )
)]
async fn list(
    State(queues): State<Queues>,
    Path(queue): Path<String>,
    query: Query,
) -> Result<Json<PartitionPage>, ApiError> {
    let not_an_id = |text: &str| invalid("after", format_args!("must be the `next` of another page, got {text:?}"));
    let after = query.text("after").map(|text| text.parse().map_err(|_| not_an_id(text))).transpose()?;
    let state = word(&query, "state", &STATES)?;
    let page = queues.partitions_after(&queue, query.text("partition"), state, after, limit(&query)?).await?;
    let page = page.ok_or_else(|| no_queue(&queue))?;
    Ok(Json(PartitionPage {
        partitions: page.rows.into_iter().map(Into::into).collect(),
        next: page.next.map(|next| next.to_string()),
    }))
}

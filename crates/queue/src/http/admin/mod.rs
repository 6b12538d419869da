//! The administrative routes.
//!
//! Clients write names into paths without escaping their slashes. So each route with a name has a wildcard route beside
//! it, which interprets the end of the path.

mod dead_letters;
mod groups;
mod maintenance;
mod message;
mod messages;
mod partitions;
mod queue_options;
mod queues;
mod resources;
mod seek;
mod status;
mod traces;

use reveille_web::{ApiError, Query};
use utoipa_axum::router::OpenApiRouter;

use crate::admin::resources::{PAGE_MAX, Page};
use crate::http::api_error::invalid;
use crate::id::PartitionId;
use crate::queues::Queues;

/// The routes that clients call before they push or pop.
pub(crate) fn configuration() -> OpenApiRouter<Queues> {
    queues::configuration()
}

/// The administrative routes.
pub(crate) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
        .merge(queues::routes())
        .merge(resources::routes())
        .merge(partitions::routes())
        .merge(messages::routes())
        .merge(message::routes())
        .merge(dead_letters::routes())
        .merge(traces::routes())
        .merge(groups::routes())
        .merge(seek::routes())
        .merge(maintenance::routes())
        .merge(status::routes())
}

/// The requested page: `limit` and `offset`.
fn page(query: &Query, limit: u32) -> Result<Page, ApiError> {
    Ok(Page {
        limit: query.number("limit", 0..=u64::from(PAGE_MAX))?.map_or(limit, |limit| limit as u32),
        offset: query.number("offset", 0..=u64::from(u32::MAX))?.map_or(0, |offset| offset as u32),
    })
}

/// The id of a partition.
pub(super) fn partition(text: &str) -> Result<PartitionId, ApiError> {
    text.parse().map_err(|_| invalid("partitionId", format_args!("must be the id of a partition, got {text:?}")))
}

//! Everything about queues that is not moving messages.

use utoipa_axum::router::OpenApiRouter;

use crate::queues::Queues;

/// The administrative routes.
pub(crate) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
}

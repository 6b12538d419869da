//! The queue over HTTP: the wire contract that clients in several languages speak.
//!
//! Clients in the field cannot be changed, and a form they do not expect costs their users work: an answer of the wrong shape is a lost consumer, a refusal with the wrong status
//! is sent again for ever. So the forms are written down once, here, and described by a document that is generated from the same code (`GET /openapi.json`).
//!
//! A request either means something or is refused with 4xx and a sentence that names the part that does not; then nothing was changed. 5xx means "not done, or harmless when sent
//! again". No text of the database reaches a client (see the crate `web`). A waiting pop is a future: whoever closes the connection drops it, and what was leased for it goes back.

mod ack;
mod admin;
mod api_error;
mod field;
mod lease;
mod openapi;
mod pop;
mod push;
mod schema;
mod transaction;

use axum::routing::get;
use reveille_web::{Api, strict};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::queues::Queues;

/// Where everything is.
const BASE: &str = "/api/v1";

/// The routes of the queue, under `/api/v1`, and what describes them.
pub fn api(queues: Queues) -> Api {
    let api = OpenApiRouter::new()
        .routes(routes!(push::push))
        .routes(routes!(pop::pop_queue))
        .routes(routes!(pop::pop_partition))
        .routes(routes!(pop::pop_space))
        // Some clients do not escape the slashes of a name.
        .route("/pop/queue/{queue}/{*rest}", get(pop::pop_slashed))
        .routes(routes!(ack::ack))
        .routes(routes!(ack::ack_batch))
        .routes(routes!(lease::extend))
        .routes(routes!(transaction::transaction))
        .merge(admin::configuration());
    // Administrative routes reject unknown parameters. Producers and consumers may send parameters of other servers, and
    // must go on working.
    let administration = strict(OpenApiRouter::new().nest(BASE, admin::routes()));
    let all = OpenApiRouter::with_openapi(openapi::head()).nest(BASE, api).merge(administration);
    Api::new(all.with_state(queues))
}

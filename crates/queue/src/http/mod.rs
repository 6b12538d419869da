//! The HTTP API of the queue: the wire contract that clients in several languages speak.
//!
//! Deployed clients cannot be changed. A response in an unexpected format breaks a consumer, and a rejected request
//! with the wrong status is retried forever. So the formats are defined here, and the OpenAPI document is generated
//! from the same code (`GET /openapi.json`).
//!
//! An invalid request is rejected with 4xx and a message that names the parameter; nothing was changed. 5xx means that
//! nothing was done, or that a retry is safe. No text of the database reaches a client (see the crate `reveille-web`).
//! A waiting pop is a future: closing the connection drops it, which releases its leases.

mod access;
mod ack;
mod admin;
mod api_error;
mod field;
mod lease;
mod openapi;
mod pop;
mod push;
mod schema;
mod scope;
mod transaction;
mod v1;

use axum::middleware::from_fn_with_state;
use axum::routing::get;
use reveille_web::{Api, Needs, strict};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::queues::Queues;

/// The prefix of all routes.
const BASE: &str = "/api/v1";

/// The routes of the queue, under `/api/v1` for the clients of Queen MQ and under `/v1` for operators, and their OpenAPI document.
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
    // Administrative routes reject unknown parameters. Producers and consumers may send parameters of other servers,
    // and must keep working.
    let administration = strict(OpenApiRouter::new().nest(BASE, admin::routes()));
    let all = OpenApiRouter::with_openapi(openapi::head()).nest(BASE, api).merge(administration);
    let operation = strict(OpenApiRouter::new().nest(v1::BASE, v1::routes()));
    let all = all.merge(operation).route_layer(from_fn_with_state(queues.clone(), scope::of_partition));
    Api::new(all.with_state(queues), Needs::new(access::NEEDS))
}

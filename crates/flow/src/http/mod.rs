//! Task graphs over HTTP: templates, tasks, and workers in any language.
//!
//! A request either means something or is refused with 4xx and a sentence that names the part that does not; then nothing was changed. 5xx means "not done, or harmless when sent
//! again". What workers say comes in lists, and each element has an answer of its own: one that is wrong is no matter of the others. A waiting claim is a future: whoever closes the
//! connection drops it, and what was claimed for it goes back.

mod claim;
mod form;
mod openapi;
mod refusal;
mod report;
mod submit;
mod template;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::Face;

use crate::flow::Flow;

/// Where everything is.
const BASE: &str = "/v1";

/// The routes of flow, under `/v1`, and what describes them.
pub fn face(flow: Flow) -> Face {
    let api = OpenApiRouter::new()
        .routes(routes!(template::register))
        .routes(routes!(template::get))
        .routes(routes!(submit::submit))
        .routes(routes!(claim::claim))
        .routes(routes!(report::heartbeat))
        .routes(routes!(report::complete))
        .routes(routes!(report::fail))
        .routes(routes!(report::checkpoint))
        .routes(routes!(report::release));
    Face::of(OpenApiRouter::with_openapi(openapi::head()).nest(BASE, api).with_state(flow))
}

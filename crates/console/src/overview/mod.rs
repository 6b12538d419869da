//! The first page: what needs attention.

use axum::Router;
use axum::routing::get;
use maud::html;

use crate::page::{Page, Section};
use crate::{Console, Visit};

pub(crate) fn routes() -> Router<Console> {
    // The address of the console, with and without a final slash: nested routers match both here.
    Router::new().route("/", get(overview))
}

/// `GET /console`
async fn overview(visit: Visit) -> Page {
    visit.page(Section::Overview, "Overview", html! { section data-live="overview" { p { "All quiet." } } })
}

//! The pages of this section.

use axum::Router;
use axum::routing::get;
use maud::html;

use crate::page::{Page, Section};
use crate::parts::empty;
use crate::{Console, Visit};

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/wake", get(list))
}

/// `GET /console/wake`
async fn list(visit: Visit) -> Page {
    let nothing = empty("Nothing here yet", "This page is not built yet.", "");
    visit.page(Section::Wake, "Wake", html! { section data-live="list" { (nothing) } })
}

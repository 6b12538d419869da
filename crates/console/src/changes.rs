//! `GET /console/events`: tells open pages that something has changed, without a statement.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};

use crate::Console;

/// How often a silent stream sends a comment, so that proxies keep it open and a closed browser is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sends `change` with the names of the products that have changed.
pub(crate) async fn events(State(console): State<Console>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = unfold(console.changes.subscribe(), async |mut changes| {
        let products = changes.next().await?;
        Some((Ok(Event::default().event("change").data(products.join(" "))), changes))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

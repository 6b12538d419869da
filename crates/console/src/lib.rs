//! The web console: pages for people, made from the HTTP API.
//!
//! The console is a client of the API in the same process. It gets the API's router, sends it requests without a socket
//! ([`Api`]) on behalf of the visitor, and writes HTML from the answers. So whatever the console shows, the API and the
//! command line have as well, and access is checked in one layer: that of the API. The console contains no SQL and
//! knows no product.
//!
//! Three dangers shape it. Names and payloads are written by others: all text is escaped by `maud`, there is no inline
//! script or style, and the Content-Security-Policy of every page allows none. A page that polls keeps the database
//! busy: an open page asks again only after the change signal ([`reveille_wake::Changes`]), which costs no statement. Numbers in
//! payloads may be larger than a float holds: JSON is kept as text ([`Json`]).
//!
//! # How to add a page
//!
//! A section has a folder (`queues`, `tasks`, `durable`), whose `routes` are merged below.
//!
//! ```ignore
//! pub(crate) fn routes() -> Router<Console> {
//!     Router::new().route("/queues", get(list)).route("/queues/{queue}", get(one))
//! }
//!
//! async fn one(visit: Visit, Path(queue): Path<String>) -> Result<Page, Failure> {
//!     // An error of the API becomes the page that the visitor gets.
//!     let found: Json = visit.get(&Url::api(["api", "v1", "resources", "queues", &queue])).await?;
//!     let content = html! {
//!         // What changes while the page is open is in a live part; names of live parts are unique on a page.
//!         section data-live="partitions" {
//!             (Table::new("Partitions", &["Name", "Depth"]).rows(&found["partitions"].items(), |row| vec![
//!                 html! { a href=(Url::link(["queues", &queue]).with("partition", row["name"].text())) { (row["name"].text()) } },
//!                 html! { (row["depth"].shown()) },
//!             ]))
//!         }
//!     };
//!     Ok(visit.page(Section::Queues, &queue, content)
//!         .within("Queues", Url::link(["queues"]))
//!         .action(Action::new("Delete", Method::DELETE, Url::api(["api", "v1", "resources", "queues", &queue]))
//!             .confirm_by_typing(&queue)
//!             .command(["queue", "delete", &queue])))
//! }
//! ```
//!
//! - Links are [`Url::link`]: relative to the console's root, which `<base>` names, so that the console works below the
//!   path of a proxy. Requests of the API are [`Url::api`]. Both encode their segments.
//! - Filters are parameters of the page's URL: `parts::filter` writes the form, [`Visit::parameter`] reads them, and
//!   [`Visit::here`] is the address of this page with other parameters. Pages of a list are keyset pages: `after`.
//! - What changes something is an [`Action`]; it shows itself as `curl` and as a command. There are no other forms with
//!   effects, and no handlers for them in this crate.
//! - Styles are classes of `assets/console.css`; `style=` is not allowed by the policy.

mod action;
mod api;
mod assets;
mod changes;
mod durable;
mod failure;
pub mod graph;
mod json;
mod login;
mod overview;
mod page;
pub mod parts;
mod queues;
mod read_only;
mod search;
mod tasks;
mod url;
mod visit;
mod wake;

use std::sync::Arc;

use axum::{Router, middleware::map_response, routing::get};

pub use action::{Action, Field};
pub use api::Api;
pub use failure::Failure;
pub use json::Json;
pub use login::Login;
pub use page::{Page, Section};
pub use read_only::refuse_effects;
pub use url::Url;
pub use visit::Visit;

/// What the console's pages share. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    api: Api,
    changes: reveille_wake::Changes,
    options: Arc<Options>,
}

/// How the console behaves.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether actions are left out.
    pub read_only: bool,
}

/// Where the console is.
pub const MOUNT: &str = "/console";

/// The routes of the console, below [`MOUNT`]. `api` has the routes of the API as clients reach them, with
/// their access checks.
pub fn routes(api: Router, changes: reveille_wake::Changes, options: Options) -> Router {
    let console = Console { api: Api::new(api), changes, options: Arc::new(options) };
    let pages = Router::new()
        .merge(overview::routes())
        .merge(queues::routes())
        .merge(tasks::routes())
        .merge(durable::routes())
        .merge(wake::routes())
        .route("/search", get(search::search))
        .route("/events", get(changes::events))
        .route("/assets/{file}", get(assets::file))
        .fallback(failure::no_page);
    Router::new()
        .nest(MOUNT, pages)
        // A nested router has no address with a final slash.
        .route("/console/", get(overview::overview))
        .with_state(console)
        .layer(map_response(page::protect))
}

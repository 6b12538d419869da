//! The HTTP layer that the APIs of all products share.
//!
//! A client of one product finds the same conventions in another: how a body is read, how an error looks, how a
//! timestamp is written, and one OpenAPI document for everything (`GET /openapi.json`). This crate maps the errors of
//! the engine and the database to HTTP responses. It knows no table.

mod api;
mod body;
mod error;
mod intake;
mod list;
mod memory;
mod openapi;
mod path;
mod plain;
mod query;
mod scan;
mod schema;
mod strict;
mod timestamp;
mod unread;

pub use api::Api;
pub use body::{Body, RawBody, Text};
pub use error::{ApiError, Failure};
pub use list::List;
pub use memory::Charge;
pub use openapi::complete;
pub use path::Path;
pub use plain::plain;
pub use query::Query;
pub use scan::{MAX_DEPTH, is_within_depth};
pub use schema::{Id, Time, True, text};
pub use strict::strict;
pub use timestamp::{Timestamp, parse as parse_timestamp};
pub use unread::Hangup;

#[doc(hidden)]
pub mod described {
    //! What [`schema!`](crate::schema) expands to.
    pub use utoipa::openapi::RefOr;
    pub use utoipa::openapi::schema::Schema;
    pub use utoipa::{PartialSchema, ToSchema};
}

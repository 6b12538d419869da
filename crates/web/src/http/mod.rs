//! Everything that needs the web server and the OpenAPI document.

mod access;
mod api;
mod body;
mod error;
mod intake;
mod list;
mod memory;
mod openapi;
mod path;
mod proceed;
mod query;
mod request_id;
mod schema;
mod strict;
mod trace_context;
mod unread;

pub use access::{
    Credentials, GLOB_MAX, Glob, Grant, Need, Needs, NotAGlob, NotAGrant, Principal, Role, Scope, Visible, enforce,
};
pub use api::Api;
pub use body::{Body, RawBody, Text};
pub use error::{ApiError, Failure};
pub use list::List;
pub use memory::Charge;
pub use openapi::complete;
pub use path::Path;
pub use proceed::{Below, proceed};
pub use query::Query;
pub use request_id::RequestId;
pub use schema::{Id, Time, True, text};
pub use strict::strict;
pub use trace_context::{SPAN_TARGET, TraceContext, is_collected, trace_id_of};
pub use unread::Hangup;

#[doc(hidden)]
pub mod described {
    //! What [`schema!`](crate::schema) expands to.
    pub use utoipa::openapi::RefOr;
    pub use utoipa::openapi::schema::Schema;
    pub use utoipa::{PartialSchema, ToSchema};
}

//! What the HTTP faces of all products have in common.
//!
//! A client of one product finds the same with another: how a body is read, how a refusal looks, how a time is written, and one document that describes everything (`GET /openapi.json`). The
//! danger is a second way to do one of these, which then differs. This crate knows the errors of the engine and the database, to say what they mean to a client, and no table.

mod answers;
mod arrival;
mod body;
mod face;
mod form;
mod list;
mod memory;
mod moment;
mod openapi;
mod path;
mod plain;
mod query;
mod refusal;
mod scan;
mod strict;

pub use answers::Hangup;
pub use body::{Body, RawBody, Text};
pub use face::Face;
pub use form::{Id, Time, Yes, text};
pub use list::List;
pub use memory::Charge;
pub use moment::{Moment, parse as parse_time};
pub use openapi::complete;
pub use path::Path;
pub use plain::plain;
pub use query::Query;
pub use refusal::{Failure, Refusal};
pub use scan::{MAX_DEPTH, is_within_depth};
pub use strict::strict;

#[doc(hidden)]
pub mod described {
    //! What [`form!`](crate::form) needs of others.
    pub use utoipa::openapi::RefOr;
    pub use utoipa::openapi::schema::Schema;
    pub use utoipa::{PartialSchema, ToSchema};
}

//! The HTTP layer that the APIs of all products share.
//!
//! A client of one product finds the same conventions in another: how a body is read, how an error looks, how a
//! timestamp is written, and one OpenAPI document for everything (`GET /openapi.json`). This crate maps the errors of
//! the engine and the database to HTTP responses. It knows no table.
//!
//! Without the feature `http` it contains no web server: only the nesting limit of JSON ([`is_within_depth`]), parser
//! errors in plain words ([`plain`]) and timestamps. A product that is embedded as a library needs these, too.

#[cfg(feature = "http")]
mod http;
mod plain;
mod scan;
mod timestamp;

#[cfg(feature = "http")]
pub use http::*;
pub use plain::plain;
pub use scan::{MAX_DEPTH, is_within_depth};
pub use timestamp::{Timestamp, parse as parse_timestamp};

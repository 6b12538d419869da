//! Task graphs over HTTP, against real servers: what workers and those who want something done send, and what they must read.

mod claims;
mod fixture;
mod reports;
mod schema;
mod tasks;
mod templates;

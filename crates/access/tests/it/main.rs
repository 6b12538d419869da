//! Tokens on a real PostgreSQL.

mod schema;
mod tokens;

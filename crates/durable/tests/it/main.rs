//! The provider against PostgreSQL.

mod fixture;
mod schema;
mod validation;

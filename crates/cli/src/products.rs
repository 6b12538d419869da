//! The products in this binary, and what each brings: its part of the schema, its routes, its health.
//!
//! A product is added here and nowhere else in this crate.

use pg::{Component, Migrator, Schema};

/// Every product's tables, in the order in which they depend on each other.
fn components() -> Vec<Component> {
    Vec::new()
}

/// What brings `schema` up to date for this binary.
pub(crate) fn migrator(schema: &Schema) -> Migrator {
    Migrator::new(schema, components())
}

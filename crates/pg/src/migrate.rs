//! Migrations.
use crate::{Database, Result, Schema};

/// A product's part of the schema.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name.
    pub name: &'static str,
    /// Numbered from 1, append-only.
    pub migrations: &'static [Migration],
    /// Current text.
    pub functions: &'static [Function],
    /// Placeholders beside `{schema}`.
    pub vars: Vec<(String, String)>,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// From 1, consecutive.
    pub number: u32,
    /// What it does.
    pub name: &'static str,
    /// Text.
    pub sql: &'static str,
}

/// One function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Text.
    pub sql: &'static str,
}

/// Something to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A migration.
    Migration {
        /// Of which component.
        component: &'static str,
        /// Number.
        number: u32,
        /// Name.
        name: &'static str,
    },
    /// A function.
    Function {
        /// Of which component.
        component: &'static str,
        /// Name.
        name: &'static str,
    },
}

/// What was applied.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In order; empty if the schema was up to date.
    pub applied: Vec<Step>,
}

/// Brings a schema up to date.
#[derive(Clone, Debug)]
pub struct Migrator {
    schema: Schema,
    components: Vec<Component>,
}

impl Migrator {
    /// Takes components.
    pub fn new(schema: &Schema, components: Vec<Component>) -> Migrator {
        Migrator { schema: schema.clone(), components }
    }
    /// Applies.
    pub async fn run(&self, db: &Database) -> Result<Report> {
        let _ = (db, &self.schema, &self.components);
        Ok(Report::default())
    }
    /// Dry run.
    pub async fn plan(&self, db: &Database) -> Result<Vec<Step>> {
        let _ = db;
        Ok(Vec::new())
    }
    /// The full SQL.
    pub fn dump(&self) -> String {
        String::new()
    }
    /// Verify only.
    pub async fn verify(&self, db: &Database) -> Result<()> {
        let _ = db;
        Ok(())
    }
}

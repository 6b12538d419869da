//! The table of applied steps.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};
use sqlx::{PgConnection, Row};

use crate::schema::literal;
use crate::{Error, Result, Schema, Sql};

/// The table (`undefined_table`) or the schema does not exist: nothing has been applied yet.
const NOT_THERE: &[&str] = &["42P01", "3F000"];

/// Applied steps by component.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Number to hash.
    migrations: HashMap<String, BTreeMap<u32, String>>,
    /// Component and name to hash.
    functions: HashMap<(String, String), String>,
}

impl Ledger {
    /// Reads the table in one statement. Empty if there is no table.
    pub(super) async fn read(schema: &Schema, connection: &mut PgConnection) -> Result<Ledger> {
        let sql = schema.sql("select component, number, name, hash from {schema}.migration");
        let rows = match sqlx::raw_sql(&sql).fetch_all(connection).await.map_err(Error::from) {
            Ok(rows) => rows,
            Err(error) if error.sqlstate().is_some_and(|code| NOT_THERE.contains(&code)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut ledger = Ledger::default();
        for row in rows {
            let (component, hash): (String, String) = (row.try_get(0)?, row.try_get(3)?);
            match row.try_get::<Option<i32>, _>(1)? {
                Some(number) => ledger.note_migration(component, number.unsigned_abs(), hash),
                None => ledger.note_function(component, row.try_get(2)?, hash),
            }
        }
        Ok(ledger)
    }

    pub(super) fn note_migration(&mut self, component: String, number: u32, hash: String) {
        self.migrations.entry(component).or_default().insert(number, hash);
    }

    pub(super) fn note_function(&mut self, component: String, name: String, hash: String) {
        self.functions.insert((component, name), hash);
    }

    /// The highest applied number. Zero means none.
    pub(super) fn highest(&self, component: &str) -> u32 {
        self.migrations.get(component).and_then(|applied| applied.keys().next_back().copied()).unwrap_or(0)
    }

    /// The hash of a migration. `None` if it has not been applied.
    pub(super) fn migration(&self, component: &str, number: u32) -> Option<&str> {
        self.migrations.get(component)?.get(&number).map(String::as_str)
    }

    /// The hash of the last applied text of a function. `None` if it has not been applied.
    pub(super) fn function(&self, component: &str, name: &str) -> Option<&str> {
        self.functions.get(&(component.to_owned(), name.to_owned())).map(String::as_str)
    }
}

/// Creates the schema and the table if they do not exist. It checks first, because `create schema if not exists`
/// requires the privilege to create schemas even if the schema exists.
pub(super) async fn create(schema: &Schema, connection: &mut PgConnection) -> Result<()> {
    let sql = schema.sql(include_str!("exists.sql"));
    let row = sqlx::raw_sql(&sql).fetch_one(&mut *connection).await?;
    let (has_schema, has_table): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    if !has_schema {
        sqlx::raw_sql(schema.sql("create schema {schema}")).execute(&mut *connection).await?;
    }
    if !has_table {
        sqlx::raw_sql(create_table(schema)).execute(connection).await?;
    }
    Ok(())
}

/// The statements that create the table.
pub(super) fn create_table(schema: &Schema) -> Sql {
    schema.sql(include_str!("table.sql"))
}

/// The statement that records a step; `number` is `None` for a function.
pub(super) fn record(schema: &Schema, component: &str, number: Option<u32>, name: &str, hash: &str) -> Sql {
    let number = number.map_or_else(|| "null".to_owned(), |number| number.to_string());
    schema.sql_with(
        include_str!("record.sql"),
        &[("component", &literal(component)), ("number", &number), ("name", &literal(name)), ("hash", &literal(hash))],
    )
}

/// SHA-256 of a text in hexadecimal. Line endings are normalized: a checkout may change them.
pub(super) fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.replace("\r\n", "\n"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The key of the advisory lock. Keys are per database and shared with the application, so it is a hash.
pub(super) fn lock_key(schema: &Schema) -> i64 {
    let digest = Sha256::digest(format!("reveille migrate {}", schema.name()));
    i64::from_be_bytes(digest[..8].try_into().expect("SHA-256 has more than eight bytes"))
}

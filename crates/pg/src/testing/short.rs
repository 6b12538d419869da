//! A server that is short of something, on demand.
//!
//! A trigger raises the error in the middle of the statement, under the SQLSTATE that the server itself uses when it
//! has no room. For a disk that is really full see [`SmallDisk`](super::SmallDisk).

use super::TestDb;

impl TestDb {
    /// From now on every write to a table fails with a SQLSTATE; `53100` is a full disk.
    pub async fn fail_writes(&self, table: &str, code: &str) {
        let sql = format!(
            "create or replace function {{schema}}.short() returns trigger language plpgsql as
                 $$ begin raise exception 'no room' using errcode = '{code}'; end $$;
             create or replace trigger short before insert or update or delete on {{schema}}.{table}
                 for each statement execute function {{schema}}.short()"
        );
        self.run(&sql).await;
    }

    /// Writes to a table work again.
    pub async fn allow_writes(&self, table: &str) {
        self.run(&format!("drop trigger short on {{schema}}.{table}")).await;
    }

    async fn run(&self, sql: &str) {
        let sql = self.schema().sql(sql);
        sqlx::raw_sql(&sql).execute(self.database().pool()).await.expect("a statement of a test");
    }
}

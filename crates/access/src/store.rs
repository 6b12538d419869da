//! Tokens in the database.

use reveille_pg::audit::Entry;
use reveille_pg::{Component, Database, Migration, Schema, Sql};
use reveille_web::{Credentials, Grant};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::secret::{Hash, Secret};
use crate::session::SESSION_IDLE;

/// The longest name of a token, in bytes.
const NAME_MAX: usize = 128;
/// Bound on the grants of a token: each is compared with each request.
const GRANTS_MAX: usize = 64;
/// The longest lifetime: a hundred years, far from overflow.
const EXPIRES_MAX: f64 = 100.0 * 365.0 * 86_400.0;

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "tokens", sql: include_str!("../db/migrations/0001_tokens.sql") },
    Migration { number: 2, name: "sessions", sql: include_str!("../db/migrations/0002_sessions.sql") },
    Migration { number: 3, name: "audit", sql: include_str!("../db/migrations/0003_audit.sql") },
];

/// A token to create.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Its name, which identifies its client in lists, errors and the audit.
    pub name: String,
    /// What its client may do.
    pub grants: Vec<Grant>,
    /// Whether its client sees payloads.
    pub payloads: bool,
    /// Seconds until it expires. `None`: never.
    pub expires_in: Option<f64>,
}

/// A token without its secret.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// What its client may do.
    pub grants: Vec<Grant>,
    /// Whether its client sees payloads.
    pub payloads: bool,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// The client that created it.
    pub created_by: String,
    /// When it expires. `None`: never.
    pub expires_at: Option<OffsetDateTime>,
    /// When it was last used, to about a minute.
    pub last_used_at: Option<OffsetDateTime>,
    /// Whether it has expired, by the database's clock.
    pub expired: bool,
}

/// A valid token or session, as the cache keeps it.
pub(crate) struct Found {
    pub(crate) id: Uuid,
    pub(crate) hash: Hash,
    pub(crate) name: String,
    pub(crate) grants: Vec<Grant>,
    pub(crate) payloads: bool,
    /// Seconds until it expires.
    pub(crate) expires_in: Option<f64>,
    /// Whether it is a token or a session.
    pub(crate) credentials: Credentials,
}

/// The statements.
pub(crate) struct Store {
    pub(crate) db: Database,
    find: Sql,
    insert: Sql,
    list: Sql,
    revoke: Sql,
    touch: Sql,
}

/// The database objects of this crate.
pub(crate) fn component() -> Component {
    Component { name: "access", migrations: MIGRATIONS, functions: &[], vars: Vec::new() }
}

impl NewToken {
    fn check(&self) -> Result<()> {
        let invalid = |name, reason| Err(Error::Invalid { name, reason });
        let length = self.name.len();
        if length == 0 || length > NAME_MAX || self.name.chars().any(char::is_control) {
            let reason = format!("must have 1 to {NAME_MAX} bytes and no control characters, got {:?}", self.name);
            return invalid("name", reason);
        }
        if self.grants.is_empty() || self.grants.len() > GRANTS_MAX {
            return invalid("grants", format!("must be 1 to {GRANTS_MAX} grants, got {}", self.grants.len()));
        }
        match self.expires_in {
            Some(seconds) if !(seconds > 0.0 && seconds <= EXPIRES_MAX) => {
                invalid("expires_in_seconds", format!("must be above 0 and at most {EXPIRES_MAX}, got {seconds}"))
            }
            _ => Ok(()),
        }
    }
}

impl Store {
    pub(crate) fn new(db: &Database, schema: &Schema) -> Store {
        Store {
            db: db.clone(),
            find: schema.sql(reveille_pg::statement!("find_tokens")),
            insert: schema.sql(reveille_pg::statement!("insert_token")),
            list: schema.sql(reveille_pg::statement!("list_tokens")),
            revoke: schema.sql(reveille_pg::statement!("revoke_token")),
            touch: schema.sql(reveille_pg::statement!("touch_tokens")),
        }
    }

    /// The valid tokens and sessions among `hashes`.
    pub(crate) async fn find(&self, hashes: &[Hash]) -> Result<Vec<Found>> {
        let bytes: Vec<&[u8]> = hashes.iter().map(Hash::as_bytes).collect();
        let rows = self
            .db
            .ask("find tokens", || sqlx::query(&self.find).bind(bytes.clone()).bind(SESSION_IDLE.as_secs_f64()))
            .await?;
        let found = rows.iter().map(|row| {
            let hash: &[u8] = row.try_get(1)?;
            Ok(Found {
                id: row.try_get(0)?,
                hash: Hash::stored(hash).ok_or_else(|| sqlx::Error::Decode("a hash has 32 bytes".into()))?,
                name: row.try_get(2)?,
                grants: grants(row, 3)?,
                payloads: row.try_get(4)?,
                expires_in: row.try_get(5)?,
                credentials: if row.try_get(6)? { Credentials::Session } else { Credentials::Token },
            })
        });
        found.collect()
    }

    /// Stores a new token for `secret`.
    pub(crate) async fn create(&self, token: NewToken, secret: &Secret, creator: &str) -> Result<Stored> {
        token.check()?;
        let NewToken { name, grants, payloads, expires_in } = token;
        let (id, hash) = (Uuid::new_v4(), secret.hash());
        let text = serde_json::to_string(&grants).expect("grants are JSON");
        let mut transaction = self.db.begin().await?;
        let insert = sqlx::query(&self.insert).bind(id).bind(hash.as_bytes()).bind(&name).bind(text);
        let insert = insert.bind(payloads).bind(creator).bind(expires_in);
        let Some(row) = insert.fetch_optional(&mut *transaction).await? else { return Err(Error::Taken { name }) };
        let (created_at, expires_at) = (row.try_get(0)?, row.try_get(1)?);
        if let Some(entry) = Entry::new("token.create", &name) {
            let grants: Vec<String> = grants.iter().map(Grant::to_string).collect();
            let detail = serde_json::json!({"id": id.to_string(), "grants": grants, "payloads": payloads});
            entry.detail(detail.to_string()).write(&mut transaction).await?;
        }
        transaction.commit().await?;
        let created_by = creator.to_owned();
        let (last_used_at, expired) = (None, false);
        Ok(Stored { id, name, grants, payloads, created_at, created_by, expires_at, last_used_at, expired })
    }

    /// A page of tokens by name, and whether there are more.
    pub(crate) async fn list(&self, after: Option<&str>, limit: usize) -> Result<(Vec<Stored>, bool)> {
        let query = || sqlx::query(&self.list).bind(after).bind(limit as i64 + 1);
        let rows = self.db.ask("list tokens", query).await?;
        let all = rows.iter().take(limit).map(|row| {
            Ok(Stored {
                id: row.try_get(0)?,
                name: row.try_get(1)?,
                grants: grants(row, 2)?,
                payloads: row.try_get(3)?,
                created_at: row.try_get(4)?,
                created_by: row.try_get(5)?,
                expires_at: row.try_get(6)?,
                last_used_at: row.try_get(7)?,
                expired: row.try_get(8)?,
            })
        });
        Ok((all.collect::<Result<_>>()?, rows.len() > limit))
    }

    /// Revokes a token, and notifies the servers. Returns its name; `None`: there is no such token.
    pub(crate) async fn revoke(&self, id: Uuid, notifications: (Vec<String>, Vec<String>)) -> Result<Option<String>> {
        let (channels, payloads) = notifications;
        let mut transaction = self.db.begin().await?;
        let revoke = sqlx::query(&self.revoke).bind(id).bind(channels).bind(payloads);
        let row = revoke.fetch_optional(&mut *transaction).await?;
        let name: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
        if let Some(entry) = name.as_deref().and_then(|name| Entry::new("token.revoke", name)) {
            entry.write(&mut transaction).await?;
        }
        transaction.commit().await?;
        Ok(name)
    }

    /// Records that tokens were used.
    pub(crate) async fn touch(&self, ids: &[Uuid]) -> Result<()> {
        self.db.ask("record the use of tokens", || sqlx::query(&self.touch).bind(ids)).await?;
        Ok(())
    }
}

fn grants(row: &PgRow, column: usize) -> sqlx::Result<Vec<Grant>> {
    serde_json::from_str(row.try_get(column)?).map_err(|error| sqlx::Error::Decode(error.into()))
}

//! Sessions of the console in the database.
//!
//! A session is a secret in a cookie, verified like a token: from memory, ended on every server within a second, and
//! with the token that opened it. So a browser never keeps a token.

use std::time::Duration;

use reveille_pg::{Database, Schema, Sql};
use reveille_web::Grant;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::secret::{Hash, Secret};

/// How long a session lasts, however often it is used.
pub const SESSION_LASTS: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a session lasts that is not used.
pub const SESSION_IDLE: Duration = Duration::from_secs(8 * 60 * 60);

/// Ended sessions deleted by one login: few logins keep the table small, and none takes long.
const PRUNED_MAX: i64 = 1_000;

/// The user of a session that no token of the database opened.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The name of the user.
    pub name: String,
    /// What the user may do.
    pub grants: Vec<Grant>,
    /// Whether the user sees payloads.
    pub payloads: bool,
    /// How long its credential is valid.
    pub lasts: Duration,
}

/// The statements.
pub(crate) struct Sessions {
    db: Database,
    open: Sql,
    open_of_token: Sql,
    end: Sql,
    prune: Sql,
}

impl Sessions {
    pub(crate) fn new(db: &Database, schema: &Schema) -> Sessions {
        Sessions {
            db: db.clone(),
            open: schema.sql(reveille_pg::statement!("open_session")),
            open_of_token: schema.sql(reveille_pg::statement!("open_token_session")),
            end: schema.sql(reveille_pg::statement!("end_session")),
            prune: schema.sql(reveille_pg::statement!("prune_sessions")),
        }
    }

    /// Opens a session of a user.
    pub(crate) async fn open(&self, session: NewSession) -> Result<Secret> {
        let NewSession { name, grants, payloads, lasts } = session;
        let secret = Secret::random().map_err(Error::Random)?;
        let grants = serde_json::to_string(&grants).expect("grants are JSON");
        let mut transaction = self.db.begin().await?;
        let open = sqlx::query(&self.open).bind(Uuid::new_v4()).bind(secret.hash().as_bytes().to_vec()).bind(name);
        let open = open.bind(grants).bind(payloads).bind(lasts.min(SESSION_LASTS).as_secs_f64());
        open.execute(&mut *transaction).await?;
        self.prune(&mut transaction).await?;
        transaction.commit().await?;
        Ok(secret)
    }

    /// Opens a session of a token. `None`: the token is not valid.
    pub(crate) async fn open_of_token(&self, token: Hash) -> Result<Option<Secret>> {
        let secret = Secret::random().map_err(Error::Random)?;
        let mut transaction = self.db.begin().await?;
        let open = sqlx::query(&self.open_of_token).bind(Uuid::new_v4()).bind(secret.hash().as_bytes().to_vec());
        let open = open.bind(token.as_bytes().to_vec()).bind(SESSION_LASTS.as_secs_f64());
        let opened = open.fetch_optional(&mut *transaction).await?;
        self.prune(&mut transaction).await?;
        transaction.commit().await?;
        Ok(opened.map(|_| secret))
    }

    /// Ends a session, and notifies the servers.
    pub(crate) async fn end(&self, hash: Hash, notifications: (Vec<String>, Vec<String>)) -> Result<()> {
        let (channels, payloads) = notifications;
        let mut transaction = self.db.begin().await?;
        let end = sqlx::query(&self.end).bind(hash.as_bytes().to_vec()).bind(channels).bind(payloads);
        end.fetch_optional(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn prune(&self, connection: &mut sqlx::PgConnection) -> Result<()> {
        let prune = sqlx::query(&self.prune).bind(SESSION_IDLE.as_secs_f64()).bind(PRUNED_MAX);
        prune.execute(connection).await?;
        Ok(())
    }
}

//! Who may use a server: credentials, and how they are verified.
//!
//! The result of a verification is a [`Principal`](reveille_web::Principal), the server's only notion of a client.
//! Secrets are kept as hashes, compared in constant time, and never logged. [`Tokens`] verifies tokens from memory, and
//! forgets a revoked one within a second on every server.

mod audit;
mod cache;
mod error;
pub mod http;
pub mod jwt;
pub mod oidc;
mod revision;
mod secret;
mod session;
mod store;
mod tokens;

pub use audit::{Audit, AuditFilter, Audited};
pub use error::{Error, Result};
pub use secret::{Hash, Secret};
pub use session::{NewSession, SESSION_IDLE, SESSION_LASTS};
pub use store::{NewToken, Stored};
pub use tokens::{AdminToken, Tokens};

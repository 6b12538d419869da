//! Who may use a server: credentials, and how they are verified.
//!
//! The result of a verification is a [`Principal`](https://docs.rs/reveille-web), the server's only notion of a client.
//! Secrets are kept as hashes, compared in constant time, and never logged.

mod secret;

pub use secret::{Hash, Secret};

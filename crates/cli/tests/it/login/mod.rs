//! Logging in: sessions of the console, JSON Web Tokens, an OpenID provider.

mod browser;
mod issuer;
mod jwt;
mod provider;
mod sessions;

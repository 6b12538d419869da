//! Who asks, and what it may do.
//!
//! A server puts a [`Principal`] into the extensions of each request, after it has checked the credentials. Each route
//! has a [`Need`] in the table of its product; one middleware compares the two before the body is read. A route without
//! a need is for administrators only, so a forgotten entry locks a route instead of opening it; a test finds it. Names that are only in the body are
//! checked by the route's code, with the same principal.

mod glob;
mod grant;
mod need;
mod payload;
mod principal;

pub use glob::{GLOB_MAX, Glob, NotAGlob};
pub use grant::{Grant, NotAGrant, Role};
pub(crate) use need::undocumented;
pub use need::{Need, Needs, Scope, enforce};
pub(crate) use payload::hide;
pub use principal::{Credentials, Principal, Visible};

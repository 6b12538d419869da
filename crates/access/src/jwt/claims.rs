//! What a token says, and what that grants.
//!
//! | claim | meaning |
//! |---|---|
//! | `sub` | the name of the client; recorded as the producer of its messages |
//! | `exp`, `nbf` | when it is valid; `exp` is required |
//! | `iss`, `aud` | must be the configured ones |
//! | `role`, `roles` | roles of Reveille or of Queen MQ, or names of the configured map |
//! | `reveille_grants` | a list of grants such as `worker:queues=orders.*` |
//! | `reveille_payloads` | whether payloads may be seen |

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use reveille_web::{Credentials, Grant, Principal, Role};
use serde_json::Value;

use super::{LEEWAY, Rejected};

/// The longest name of a client, in bytes: it is stored with messages and audit rows.
const NAME_MAX: usize = 256;

/// The most grants of a token.
const GRANTS_MAX: usize = 256;

/// Names of roles and groups of an issuer, and what each grants.
pub type RoleMap = HashMap<String, Vec<Grant>>;

/// What a token must say.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Its issuer; `None`: any whose key is known.
    pub issuer: Option<String>,
    /// One of its audiences; `None`: any.
    pub audience: Option<String>,
    /// The claims that have roles. A dot leads into an object: `realm_access.roles`.
    pub role_claims: Vec<String>,
    /// What names of roles grant, in addition to those of Reveille and Queen MQ.
    pub roles: RoleMap,
}

/// The verified claims of a token.
#[derive(Clone, Debug)]
pub struct Claims {
    /// Its subject.
    pub subject: String,
    /// The end of its validity, in seconds since 1970.
    pub expires: u64,
    /// The value that a login has put into its request.
    pub nonce: Option<String>,
    /// The address of its user, which the issuer has verified.
    pub email: Option<String>,
    /// What it grants.
    pub grants: Vec<Grant>,
    /// Whether payloads may be seen.
    pub payloads: bool,
}

impl Claims {
    /// Reads the claims of a token whose signature has been verified.
    pub(super) fn check(payload: &[u8], expected: &Expected, now: u64, leeway: u64) -> Result<Claims, Rejected> {
        let all: Value = serde_json::from_slice(payload).map_err(|_| Rejected::Invalid("its claims are not JSON"))?;
        let expires = time(&all, "exp")?.ok_or(Rejected::Invalid("it has no `exp`: it would be valid for ever"))?;
        if expires.saturating_add(leeway) <= now {
            return Err(Rejected::Invalid("it has expired"));
        }
        if time(&all, "nbf")?.is_some_and(|begins| begins > now.saturating_add(leeway)) {
            return Err(Rejected::Invalid("it is not valid yet (`nbf`)"));
        }
        if expected.issuer.as_deref().is_some_and(|issuer| all["iss"] != issuer) {
            return Err(Rejected::Invalid("it is of another issuer (`iss`)"));
        }
        if expected.audience.as_deref().is_some_and(|audience| !strings(&all["aud"]).any(|it| it == audience)) {
            return Err(Rejected::Invalid("it is for another audience (`aud`)"));
        }
        let subject = text(&all, "sub").ok_or(Rejected::Invalid("it has no `sub`"))?;
        if subject.is_empty() || subject.len() > NAME_MAX || subject.chars().any(char::is_control) {
            return Err(Rejected::Invalid("its `sub` is empty, longer than 256 bytes or has control characters"));
        }
        let (grants, payloads) = grants(&all, expected)?;
        let verified = all["email_verified"] == true;
        let email = text(&all, "email").filter(|email| verified && email.len() <= NAME_MAX);
        Ok(Claims { subject, expires, nonce: text(&all, "nonce"), email, grants, payloads })
    }

    /// The client that the token describes.
    pub fn principal(&self, credentials: Credentials) -> Principal {
        Principal::new(self.subject.clone(), credentials, self.grants.clone(), self.payloads)
    }

    /// How long the token is still accepted.
    pub fn remaining(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_secs(self.expires).saturating_add(LEEWAY).saturating_sub(now)
    }

    /// The name of the user for people: the verified address, if there is one, and the subject.
    pub fn user(&self) -> String {
        self.email.as_ref().map_or_else(|| self.subject.clone(), |email| format!("{email} ({})", self.subject))
    }
}

/// What the claims grant, and whether they include payloads.
fn grants(all: &Value, expected: &Expected) -> Result<(Vec<Grant>, bool), Rejected> {
    let (mut grants, mut payloads) = (Vec::new(), false);
    let named = expected.role_claims.iter().flat_map(|path| strings(at(all, path)));
    for name in named.take(GRANTS_MAX) {
        if let Some(granted) = expected.roles.get(name) {
            grants.extend(granted.iter().cloned());
            payloads |= granted.iter().any(|grant| grant.role == Role::Admin);
        } else {
            let (roles, sees) = roles(name);
            grants.extend(roles.iter().map(|role| Grant::everything(*role)));
            payloads |= sees;
        }
    }
    for text in strings(&all["reveille_grants"]).take(GRANTS_MAX) {
        let grant: Grant = text.parse().map_err(|_| Rejected::Invalid("`reveille_grants` has an invalid grant"))?;
        payloads |= grant.role == Role::Admin;
        grants.push(grant);
    }
    grants.truncate(GRANTS_MAX);
    Ok((grants, all["reveille_payloads"].as_bool().unwrap_or(payloads)))
}

/// The roles of a name, and whether it includes payloads. Names that are not known grant nothing: issuers have many
/// others. The names with a hyphen are those of Queen MQ.
fn roles(name: &str) -> (&'static [Role], bool) {
    match name {
        "viewer" => (&[Role::Viewer], false),
        "producer" => (&[Role::Producer], false),
        "worker" => (&[Role::Worker], false),
        "operator" => (&[Role::Operator], false),
        "admin" => (&[Role::Admin], true),
        "read-only" => (&[Role::Viewer], true),
        "write-only" => (&[Role::Producer], false),
        "read-write" => (&[Role::Operator, Role::Producer, Role::Worker], true),
        _ => (&[], false),
    }
}

fn text(all: &Value, name: &str) -> Option<String> {
    all[name].as_str().map(str::to_owned)
}

/// A time in seconds since 1970, which may have a fraction.
fn time(all: &Value, name: &str) -> Result<Option<u64>, Rejected> {
    const NO_TIME: Rejected = Rejected::Invalid("its `exp` or `nbf` is no time in seconds");
    match &all[name] {
        Value::Null => Ok(None),
        Value::Number(number) => {
            let seconds = number.as_u64().or_else(|| number.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64));
            seconds.map(Some).ok_or(NO_TIME)
        }
        _ => Err(NO_TIME),
    }
}

/// A text, or the texts of a list.
fn strings(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    value.as_str().into_iter().chain(list.iter().filter_map(Value::as_str))
}

fn at<'a>(all: &'a Value, path: &str) -> &'a Value {
    // A name with dots of its own, such as a URL, is tried as it is first.
    match &all[path] {
        Value::Null => path.split('.').fold(all, |value, name| &value[name]),
        value => value,
    }
}

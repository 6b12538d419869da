//! Roles, and what they are granted for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::glob::Glob;

/// What a client may do. `operator` includes `viewer`; `admin` includes all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads: lists, states, figures, metrics.
    Viewer,
    /// Creates work: pushes, submits, starts, raises events.
    Producer,
    /// Processes work: pops, acks, claims, completes.
    Worker,
    /// Reads, and repairs: retries, cancels, seeks, pauses, configures, replays.
    Operator,
    /// Everything, including deletions, tokens and modes.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 5] = [Role::Viewer, Role::Producer, Role::Worker, Role::Operator, Role::Admin];

    /// Whether a client with this role may do what `needed` may.
    pub fn includes(self, needed: Role) -> bool {
        self == needed || self == Role::Admin || (self == Role::Operator && needed == Role::Viewer)
    }

    /// The name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Producer => "producer",
            Role::Worker => "worker",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = NotAGrant;

    fn from_str(text: &str) -> Result<Role, NotAGrant> {
        let unknown = || NotAGrant(format!("unknown role {text:?}: viewer, producer, worker, operator or admin"));
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(unknown)
    }
}

/// A role for the queues and namespaces that match patterns.
///
/// Without patterns it is granted for everything. With a pattern for one of the two only, it is not granted for the
/// other: `producer:queues=orders.*` submits no tasks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The queues: a pattern of names, with `*` and `?`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub queues: Option<Glob>,
    /// The namespaces of task graphs: a pattern of names, with `*` and `?`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub namespaces: Option<Glob>,
}

/// A text that is no grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAGrant(String);

impl Grant {
    /// The role for everything.
    pub fn everything(role: Role) -> Grant {
        Grant { role, queues: None, namespaces: None }
    }

    /// Whether it is granted for everything.
    pub fn is_unscoped(&self) -> bool {
        let all = |glob: &Option<Glob>| glob.as_ref().is_some_and(Glob::is_all);
        (self.queues.is_none() && self.namespaces.is_none()) || (all(&self.queues) && all(&self.namespaces))
    }

    /// Whether it is granted for this queue.
    pub fn covers_queue(&self, name: &str) -> bool {
        self.queues.as_ref().map_or(self.is_unscoped(), |glob| glob.matches(name))
    }

    /// Whether it is granted for this namespace.
    pub fn covers_namespace(&self, name: &str) -> bool {
        self.namespaces.as_ref().map_or(self.is_unscoped(), |glob| glob.matches(name))
    }

    /// The queues it is granted for. `None`: none.
    pub(super) fn queues(&self) -> Option<Glob> {
        self.queues.clone().or_else(|| self.is_unscoped().then(Glob::all))
    }

    /// The namespaces it is granted for. `None`: none.
    pub(super) fn namespaces(&self) -> Option<Glob> {
        self.namespaces.clone().or_else(|| self.is_unscoped().then(Glob::all))
    }
}

/// `role`, or `role:queues=pattern`, `role:namespaces=pattern`, or both separated by a comma.
impl FromStr for Grant {
    type Err = NotAGrant;

    fn from_str(text: &str) -> Result<Grant, NotAGrant> {
        let (role, scopes) = text.split_once(':').map_or((text, None), |(role, scopes)| (role, Some(scopes)));
        let mut grant = Grant::everything(role.parse()?);
        for scope in scopes.iter().flat_map(|scopes| scopes.split(',')) {
            let expected = || NotAGrant(format!("invalid scope {scope:?}: queues=PATTERN or namespaces=PATTERN"));
            let (what, glob) = scope.split_once('=').ok_or_else(expected)?;
            let glob: Glob = glob.parse().map_err(|error| NotAGrant(format!("invalid scope {scope:?}: {error}")))?;
            let part = match what {
                "queues" => &mut grant.queues,
                "namespaces" => &mut grant.namespaces,
                _ => return Err(expected()),
            };
            if part.replace(glob).is_some() {
                return Err(NotAGrant(format!("{what} is given twice: use a grant for each pattern")));
            }
        }
        Ok(grant)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.role)?;
        let parts = [("queues", &self.queues), ("namespaces", &self.namespaces)];
        let given = parts.into_iter().filter_map(|(what, glob)| glob.as_ref().map(|glob| (what, glob)));
        for (index, (what, glob)) in given.enumerate() {
            write!(f, "{}{what}={glob}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl fmt::Display for NotAGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAGrant {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admin includes every role, operator includes viewer, and no other role includes another.
    #[test]
    fn roles_include_each_other_as_documented() {
        for role in Role::ALL {
            for needed in Role::ALL {
                let included =
                    role == needed || role == Role::Admin || (role, needed) == (Role::Operator, Role::Viewer);
                assert_eq!(role.includes(needed), included, "{role} {needed}");
            }
        }
    }

    /// A grant is read as it is written, and covers what its patterns match; a pattern for one kind excludes the other.
    #[test]
    fn grants_cover_what_their_patterns_match() {
        for (text, queue, namespace, unscoped) in [
            ("admin", true, true, true),
            ("viewer:queues=*,namespaces=*", true, true, true),
            ("producer:queues=orders.*", true, false, false),
            ("worker:namespaces=shop", false, true, false),
            ("operator:queues=other,namespaces=shop", false, true, false),
        ] {
            let grant: Grant = text.parse().expect("a grant");
            assert_eq!(grant.to_string(), text);
            let covers = (grant.covers_queue("orders.eu"), grant.covers_namespace("shop"), grant.is_unscoped());
            assert_eq!(covers, (queue, namespace, unscoped), "{text}");
        }
    }

    /// A grant that cannot be read is rejected with what is allowed.
    #[test]
    fn invalid_grants_are_rejected() {
        for (text, expected) in [
            ("root", "viewer, producer, worker, operator or admin"),
            ("viewer:", "queues=PATTERN"),
            ("viewer:queue=a", "queues=PATTERN"),
            ("viewer:queues=", "must not be empty"),
            ("viewer:queues=a,queues=b", "given twice"),
        ] {
            let error = text.parse::<Grant>().expect_err("invalid").to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

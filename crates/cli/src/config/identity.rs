//! Settings of JSON Web Tokens and of the OpenID provider.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use reveille_access::{
    jwt::{Expected, Keys, Remote, RoleMap, Source, Verifier},
    oidc::{self, Oidc},
};
use reveille_web::{Grant, Role};

use super::SecretUrl;
use crate::{
    client::{Address, Documents},
    error::Error,
};

/// Who is known to others.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Identity")]
pub(super) struct Identity {
    /// Secret of JSON Web Tokens that are signed with HS256, at least 32 bytes; prefer the variable
    #[arg(long, env = "REVEILLE_JWT_SECRET", hide_env_values = true, value_name = "SECRET")]
    jwt_secret: Option<SecretUrl>,
    /// File with the public keys of JSON Web Tokens (RS256, EdDSA): in PEM, or a JSON Web Key Set
    #[arg(long, env = "REVEILLE_JWT_KEYS", value_name = "FILE")]
    jwt_keys: Option<PathBuf>,
    /// URL of a JSON Web Key Set with these keys; fetched again for an unknown key, at most once a minute
    #[arg(long, env = "REVEILLE_JWT_JWKS_URL", hide_env_values = true, value_name = "URL")]
    jwt_jwks_url: Option<String>,
    /// Issuer that JSON Web Tokens must name (iss) [default: any]
    #[arg(long, env = "REVEILLE_JWT_ISSUER", value_name = "TEXT")]
    jwt_issuer: Option<String>,
    /// Audience that JSON Web Tokens must name (aud) [default: any]
    #[arg(long, env = "REVEILLE_JWT_AUDIENCE", value_name = "TEXT")]
    jwt_audience: Option<String>,
    /// Claims with the roles of a token, separated by commas; a dot leads into an object
    #[arg(
        long,
        env = "REVEILLE_ROLE_CLAIMS",
        default_value = "role,roles",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    role_claims: Vec<String>,
    /// What roles or groups of an issuer grant, separated by semicolons: packers=worker:queues=orders.*;admins=admin
    #[arg(long, env = "REVEILLE_ROLE_MAP", value_delimiter = ';', value_name = "NAME=GRANT")]
    role_map: Vec<String>,
    /// Role of clients with a client certificate [default: none; they need a token, too]
    #[arg(long, env = "REVEILLE_TLS_CLIENT_ROLE", value_name = "ROLE")]
    tls_client_role: Option<String>,
    /// Address of the OpenID provider for logins to the console
    #[arg(long, env = "REVEILLE_OIDC_ISSUER", hide_env_values = true, value_name = "URL")]
    oidc_issuer: Option<String>,
    /// Name under which the OpenID provider knows this server
    #[arg(long, env = "REVEILLE_OIDC_CLIENT_ID", value_name = "ID")]
    oidc_client_id: Option<String>,
    /// Secret of this server at the OpenID provider; prefer the variable
    #[arg(long, env = "REVEILLE_OIDC_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET")]
    oidc_client_secret: Option<SecretUrl>,
    /// Address under which browsers reach the server, with the path below which a proxy serves it
    #[arg(long, env = "REVEILLE_PUBLIC_URL", hide_env_values = true, value_name = "URL")]
    public_url: Option<String>,
}

fn invalid(key: &'static str, reason: impl Into<String>) -> Error {
    Error::Setting { key, source: reason.into().into() }
}

impl Identity {
    /// What verifies JSON Web Tokens, if it is configured.
    ///
    /// # Errors
    /// The setting that is not valid.
    pub(super) fn jwt(&self) -> Result<Option<Verifier>, Error> {
        const SECRET: &str = "--jwt-secret (REVEILLE_JWT_SECRET)";
        const KEYS: &str = "--jwt-keys (REVEILLE_JWT_KEYS)";
        let keys = match (&self.jwt_secret, &self.jwt_keys, &self.jwt_jwks_url) {
            (None, None, None) => return Ok(None),
            (Some(secret), None, None) => {
                let keys = Keys::secret(secret.reveal().as_bytes());
                Source::Fixed(keys.map_err(|error| invalid(SECRET, error.to_string()))?)
            }
            (None, Some(file), None) => {
                let text = std::fs::read(file);
                let text = text.map_err(|error| invalid(KEYS, format!("{}: {error}", file.display())))?;
                Source::Fixed(Keys::parse(&text).map_err(|error| invalid(KEYS, error.to_string()))?)
            }
            (None, None, Some(url)) => {
                check_url("--jwt-jwks-url (REVEILLE_JWT_JWKS_URL)", url)?;
                Source::Remote(Remote::new(url.clone(), Arc::new(Documents)))
            }
            _ => return Err(invalid(KEYS, "set only one of --jwt-secret, --jwt-keys and --jwt-jwks-url")),
        };
        let expected = Expected {
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
            role_claims: self.role_claims.clone(),
            roles: self.roles()?,
        };
        Ok(Some(Verifier::new(keys, expected)))
    }

    /// What logs users in, if it is configured.
    ///
    /// # Errors
    /// The setting that is missing or not valid.
    pub(super) fn oidc(&self) -> Result<Option<Oidc>, Error> {
        let Some(issuer) = &self.oidc_issuer else { return Ok(None) };
        check_url("--oidc-issuer (REVEILLE_OIDC_ISSUER)", issuer)?;
        let needed =
            |key, value: &Option<String>| value.clone().ok_or_else(|| invalid(key, "it is needed with --oidc-issuer"));
        let client_id = needed("--oidc-client-id (REVEILLE_OIDC_CLIENT_ID)", &self.oidc_client_id)?;
        let public_url = needed("--public-url (REVEILLE_PUBLIC_URL)", &self.public_url)?;
        check_url("--public-url (REVEILLE_PUBLIC_URL)", &public_url)?;
        let settings = oidc::Settings {
            issuer: issuer.clone(),
            client_id,
            client_secret: self.oidc_client_secret.as_ref().map(|secret| secret.reveal().to_owned()),
            redirect_url: format!("{}/console/login/callback", public_url.trim_end_matches('/')),
            role_claims: self.role_claims.clone(),
            roles: self.roles()?,
        };
        Ok(Some(Oidc::new(settings, Arc::new(Documents))))
    }

    /// The address under which browsers reach the server.
    pub(super) fn public_url(&self) -> Option<String> {
        self.public_url.clone()
    }

    /// The role of clients with a client certificate.
    ///
    /// # Errors
    /// If there is no such role.
    pub(super) fn certificate_role(&self) -> Result<Option<Role>, Error> {
        let role = self.tls_client_role.as_ref().map(|role| role.parse::<Role>());
        role.transpose().map_err(|error| invalid("--tls-client-role (REVEILLE_TLS_CLIENT_ROLE)", error.to_string()))
    }

    fn roles(&self) -> Result<RoleMap, Error> {
        const MAP: &str = "--role-map (REVEILLE_ROLE_MAP)";
        let mut roles = RoleMap::new();
        for entry in self.role_map.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty()) {
            let (name, grant) = entry.split_once('=').ok_or_else(|| invalid(MAP, format!("{entry:?} has no `=`")))?;
            let grant: Grant = grant.trim().parse().map_err(|error| invalid(MAP, format!("{entry:?}: {error}")))?;
            roles.entry(name.trim().to_owned()).or_default().push(grant);
        }
        Ok(roles)
    }
}

/// Keys and logins that others could replace on their way are worth nothing: only this machine may go without TLS.
fn check_url(key: &'static str, url: &str) -> Result<(), Error> {
    let without_query = url.split('?').next().unwrap_or_default();
    let address: Address = without_query.parse().map_err(|_| invalid(key, "it is no address such as https://…"))?;
    match address.is_confidential() {
        true => Ok(()),
        false => Err(invalid(key, "it must begin with https://, unless its host is a loopback address")),
    }
}

//! Login by an OpenID provider: authorization code with PKCE.
//!
//! A login takes two requests of the browser, which may reach two servers. So nothing is stored between them: the
//! browser keeps one random secret in a cookie, and `state`, `nonce` and the PKCE verifier are derived from it by
//! SHA-256. Only the browser that began a login can finish it.
//!
//! The provider's addresses are read from its discovery document when the first login begins. Its ID token is verified
//! like any other token, see [`jwt`](crate::jwt).

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    Hash,
    jwt::{Claims, Expected, Fetch, Outgoing, Remote, RoleMap, Source, Verifier},
};

/// How long a failed discovery is not repeated: visitors must not make the server send requests.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The longest code of a provider, in bytes.
const CODE_MAX: usize = 4 * 1024;

/// What is configured of a provider.
#[derive(Clone)]
pub struct Settings {
    /// Its address, as its tokens name it.
    pub issuer: String,
    /// The name under which it knows this server.
    pub client_id: String,
    /// The secret of this server; `None` for a public client.
    pub client_secret: Option<String>,
    /// Where it sends the browser back to.
    pub redirect_url: String,
    /// The claims that have roles.
    pub role_claims: Vec<String>,
    /// What names of roles grant.
    pub roles: RoleMap,
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The provider cannot be reached, or does not answer as it should. Try again later.
    #[error("the OpenID provider is not available: {0}")]
    Provider(String),
    /// It was begun by another browser, or too long ago. Begin again.
    #[error("this login was not begun by this browser, or too long ago: begin again")]
    NotBegun,
    /// The provider has rejected it, or its answer is not valid.
    #[error("the login was rejected: {0}")]
    Rejected(String),
}

/// Logins by a provider. Cheap to clone.
#[derive(Clone)]
pub struct Oidc(Arc<Inner>);

struct Inner {
    settings: Settings,
    fetch: Arc<dyn Fetch>,
    provider: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    provider: Option<Arc<Provider>>,
    failed: Option<(Instant, String)>,
}

/// A provider, as its discovery document describes it.
struct Provider {
    authorization_endpoint: String,
    token_endpoint: String,
    verifier: Verifier,
}

#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct Exchanged {
    id_token: String,
}

impl Oidc {
    /// Logins by a provider. Nothing is requested yet.
    pub fn new(settings: Settings, fetch: Arc<dyn Fetch>) -> Oidc {
        Oidc(Arc::new(Inner { settings, fetch, provider: Mutex::default() }))
    }

    /// The address to which the browser is sent. It keeps `secret` until it comes back.
    ///
    /// # Errors
    /// [`Failed::Provider`].
    pub async fn begin(&self, secret: &str) -> Result<String, Failed> {
        let provider = self.provider().await?;
        let Settings { client_id, redirect_url, .. } = &self.0.settings;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(derived("verifier", secret)));
        let query = form(&[
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect_url),
            ("scope", "openid email profile"),
            ("state", &derived("state", secret)),
            ("nonce", &derived("nonce", secret)),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let separator = if provider.authorization_endpoint.contains('?') { '&' } else { '?' };
        Ok(format!("{}{separator}{query}", provider.authorization_endpoint))
    }

    /// The claims of the user who has come back with `state` and `code`.
    ///
    /// # Errors
    /// Why there is no login.
    pub async fn finish(&self, secret: &str, state: &str, code: &str) -> Result<Claims, Failed> {
        // Equality of hashes takes constant time.
        if Hash::of(state.as_bytes()) != Hash::of(derived("state", secret).as_bytes()) {
            return Err(Failed::NotBegun);
        }
        if code.is_empty() || code.len() > CODE_MAX {
            return Err(Failed::Rejected("the provider sent no usable code".to_owned()));
        }
        let provider = self.provider().await?;
        let answer = self.0.fetch.send(self.exchange(&provider, secret, code)).await;
        let answer =
            answer.map_err(|error| Failed::Rejected(format!("the provider does not accept its code: {error}")))?;
        let exchanged: Result<Exchanged, _> = serde_json::from_slice(&answer);
        let token = exchanged.map_err(|_| Failed::Provider("its answer has no `id_token`".to_owned()))?.id_token;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = provider.verifier.verify_at(&token, now).await;
        let claims = claims.map_err(|error| Failed::Rejected(error.to_string()))?;
        if claims.nonce.as_deref() != Some(&derived("nonce", secret)) {
            return Err(Failed::Rejected("the ID token is of another login (`nonce`)".to_owned()));
        }
        Ok(claims)
    }

    /// The request that exchanges a code for an ID token.
    fn exchange(&self, provider: &Provider, secret: &str, code: &str) -> Outgoing {
        let Settings { client_id, client_secret, redirect_url, .. } = &self.0.settings;
        let verifier = derived("verifier", secret);
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_url.as_str()),
            ("code_verifier", &verifier),
        ];
        let authorization = client_secret.as_ref().map(|client_secret| {
            let pair = format!("{}:{}", encoded(client_id), encoded(client_secret));
            format!("Basic {}", STANDARD.encode(pair))
        });
        if authorization.is_none() {
            fields.push(("client_id", client_id));
        }
        Outgoing { url: provider.token_endpoint.clone(), form: Some(form(&fields)), authorization }
    }

    /// The provider, from memory if it is known.
    async fn provider(&self) -> Result<Arc<Provider>, Failed> {
        let mut known = self.0.provider.lock().await;
        if let Some(provider) = &known.provider {
            return Ok(Arc::clone(provider));
        }
        if let Some((at, error)) = &known.failed
            && at.elapsed() < AGAIN_AFTER
        {
            return Err(Failed::Provider(error.clone()));
        }
        match self.discover().await {
            Ok(provider) => {
                let provider = Arc::new(provider);
                known.provider = Some(Arc::clone(&provider));
                Ok(provider)
            }
            Err(error) => {
                tracing::warn!(issuer = self.0.settings.issuer, error, "the OpenID provider is not available");
                known.failed = Some((Instant::now(), error.clone()));
                Err(Failed::Provider(error))
            }
        }
    }

    async fn discover(&self) -> Result<Provider, String> {
        let Inner { settings, fetch, .. } = &*self.0;
        let url = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
        let document = fetch.send(Outgoing { url, ..Outgoing::default() }).await?;
        let found: Discovered =
            serde_json::from_slice(&document).map_err(|error| format!("its discovery document is invalid: {error}"))?;
        if found.issuer != settings.issuer {
            return Err(format!("it calls itself {:?}: that must be the value of --oidc-issuer", found.issuer));
        }
        let expected = Expected {
            issuer: Some(settings.issuer.clone()),
            audience: Some(settings.client_id.clone()),
            role_claims: settings.role_claims.clone(),
            roles: settings.roles.clone(),
        };
        let keys = Remote::new(found.jwks_uri, Arc::clone(fetch));
        Ok(Provider {
            authorization_endpoint: found.authorization_endpoint,
            token_endpoint: found.token_endpoint,
            verifier: Verifier::new(Source::Remote(keys), expected),
        })
    }
}

/// A value for one purpose that only the holder of `secret` can know.
fn derived(purpose: &str, secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(format!("{purpose}:{secret}")))
}

fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oidc").field("issuer", &self.0.settings.issuer).finish_non_exhaustive()
    }
}

//! JSON Web Tokens: their signature, their claims, and the principal that they describe.
//!
//! A token names its own algorithm, and libraries have been tricked by that: `none`, or a public RSA key used as the
//! secret of an HMAC. Here a key belongs to exactly one algorithm, and a token is verified only with keys of the
//! algorithm that it names. A token without `exp` is rejected, because it could never be withdrawn.
//!
//! The crate makes no requests of its own: [`Fetch`] does, for keys at a URL.

mod claims;
mod der;
mod key;
mod remote;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

pub use claims::{Claims, Expected, RoleMap};
pub use key::{InvalidKey, Keys, SECRET_MIN};
pub use remote::{Fetch, Fetched, Outgoing, Remote};

use key::Algorithm;

/// The longest token. Tokens with many groups have a few kilobytes; all headers of a request have 32.
pub const TOKEN_MAX: usize = 16 * 1024;

/// How much the clocks of issuer and server may differ.
const LEEWAY: Duration = Duration::from_secs(30);

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The token is not valid: authenticate again.
    #[error("invalid token: {0}")]
    Invalid(&'static str),
    /// The keys are temporarily not available: try again later.
    #[error("the keys of the token's issuer are not available; retry on this connection")]
    KeysUnavailable,
}

/// Verifies tokens. Cheap to clone.
#[derive(Clone)]
pub struct Verifier(Arc<Inner>);

struct Inner {
    keys: Source,
    expected: Expected,
}

/// Where keys come from.
pub enum Source {
    /// A file or a secret, read at start.
    Fixed(Keys),
    /// A URL.
    Remote(Remote),
}

/// The header of a token. Other fields have no effect.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a receiver must understand. This one understands none.
    crit: Option<serde_json::Value>,
}

impl Verifier {
    /// A verifier of tokens that are signed with `keys` and have the `expected` claims.
    pub fn new(keys: Source, expected: Expected) -> Verifier {
        Verifier(Arc::new(Inner { keys, expected }))
    }

    /// Whether `text` has the form of a token: three parts of base64url.
    pub fn is_token(text: &str) -> bool {
        let is_base64 = |part: &str| part.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'));
        text.starts_with("ey") && text.split('.').count() == 3 && text.split('.').all(is_base64)
    }

    /// Verifies a token against the clock of this machine.
    ///
    /// # Errors
    /// Why it is not accepted.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn verify(&self, token: &str) -> Result<Claims, Rejected> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.verify_at(token, now.as_secs()).await
    }

    /// Verifies a token at a time, in seconds since 1970.
    ///
    /// # Errors
    /// Why it is not accepted.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn verify_at(&self, token: &str, now: u64) -> Result<Claims, Rejected> {
        let signed = Signed::parse(token)?;
        let is_signed =
            |keys: &Keys| keys.verify(signed.algorithm, signed.key.as_deref(), signed.text, &signed.signature);
        let verdict = match &self.0.keys {
            Source::Fixed(keys) => is_signed(keys),
            Source::Remote(remote) => {
                let keys = remote.keys().await?;
                match is_signed(&keys) {
                    // Issuers replace their keys at any time.
                    None => is_signed(&*remote.newer(&keys).await?),
                    verdict => verdict,
                }
            }
        };
        match verdict {
            Some(true) => Claims::check(&signed.payload, &self.0.expected, now, LEEWAY.as_secs()),
            Some(false) => Err(Rejected::Invalid("its signature is wrong")),
            None => Err(Rejected::Invalid("it is signed with an unknown key or another algorithm")),
        }
    }
}

/// A token in its parts. Nothing of it is trusted yet.
struct Signed<'a> {
    algorithm: Algorithm,
    key: Option<String>,
    text: &'a [u8],
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl Signed<'_> {
    fn parse(token: &str) -> Result<Signed<'_>, Rejected> {
        const FORM: Rejected = Rejected::Invalid("it has not the form of a JSON Web Token");
        if token.len() > TOKEN_MAX {
            return Err(Rejected::Invalid("it is longer than 16 kB"));
        }
        let (text, signature) = token.rsplit_once('.').ok_or(FORM)?;
        let (header, payload) = text.split_once('.').filter(|(_, payload)| !payload.contains('.')).ok_or(FORM)?;
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| FORM);
        let header: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| FORM)?;
        if header.crit.is_some() {
            return Err(Rejected::Invalid("it requires extensions (`crit`), and none are supported"));
        }
        let algorithm = Algorithm::named(&header.alg);
        let algorithm = algorithm.ok_or(Rejected::Invalid("its algorithm is not HS256, RS256 or EdDSA"))?;
        let (payload, signature) = (decoded(payload)?, decoded(signature)?);
        Ok(Signed { algorithm, key: header.kid, text: text.as_bytes(), payload, signature })
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

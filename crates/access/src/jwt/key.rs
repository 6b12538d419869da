//! Keys that verify signatures: from a secret, a PEM file, or a JSON Web Key Set.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey},
};
use rustls_pki_types::{SubjectPublicKeyInfoDer, pem::PemObject as _};
use serde::Deserialize;

use super::der::{self, PublicKey};

/// The shortest secret of HS256, in bytes: as long as the hash, as RFC 7518 requires.
pub const SECRET_MIN: usize = 32;

/// The most keys of a set. Issuers have a handful; a token without `kid` is tried with each.
const KEYS_MAX: usize = 64;

/// What signs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Rs256,
    EdDsa,
}

impl Algorithm {
    /// `None`: another one, `none` among them.
    pub(super) fn named(name: &str) -> Option<Algorithm> {
        match name {
            "HS256" => Some(Algorithm::Hs256),
            "RS256" => Some(Algorithm::Rs256),
            "EdDSA" => Some(Algorithm::EdDsa),
            _ => None,
        }
    }
}

/// A set of keys.
#[derive(Default)]
pub struct Keys(Vec<Key>);

struct Key {
    /// `None`: it is tried for every token.
    id: Option<String>,
    material: Material,
}

/// Each belongs to one algorithm.
enum Material {
    Secret(hmac::Key),
    /// An `RSAPublicKey` in DER.
    Rsa(Vec<u8>),
    RsaNumbers(RsaPublicKeyComponents<Vec<u8>>),
    Ed25519(Vec<u8>),
}

/// Keys that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// A secret that is too short to be safe.
    #[error("the secret must have at least {SECRET_MIN} bytes, it has {0}")]
    ShortSecret(usize),
    /// Neither PEM nor JSON.
    #[error("it contains neither a public key in PEM (PUBLIC KEY) nor a JSON Web Key Set")]
    NoKeys,
    /// A key in PEM of another algorithm.
    #[error("a public key in PEM must be of RSA or Ed25519")]
    OtherAlgorithm,
    /// A set without usable keys.
    #[error("the JSON Web Key Set contains no key for RS256 or EdDSA signatures")]
    NoUsableKey,
    /// Too many.
    #[error("a set has at most {KEYS_MAX} keys, this one has {0}")]
    TooMany(usize),
}

#[derive(Deserialize)]
struct JsonKeys {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct JsonKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
}

impl Keys {
    /// The key of HS256.
    ///
    /// # Errors
    /// [`InvalidKey::ShortSecret`].
    pub fn secret(secret: &[u8]) -> Result<Keys, InvalidKey> {
        if secret.len() < SECRET_MIN {
            return Err(InvalidKey::ShortSecret(secret.len()));
        }
        let material = Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret));
        Ok(Keys(vec![Key { id: None, material }]))
    }

    /// The keys of a file: public keys in PEM, or a JSON Web Key Set.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn parse(text: &[u8]) -> Result<Keys, InvalidKey> {
        if text.trim_ascii_start().starts_with(b"{") {
            return Keys::json(text);
        }
        let mut keys = Vec::new();
        for info in SubjectPublicKeyInfoDer::pem_slice_iter(text) {
            let info = info.map_err(|_| InvalidKey::NoKeys)?;
            let material = match der::public_key(&info).ok_or(InvalidKey::OtherAlgorithm)? {
                PublicKey::Rsa(key) => Material::Rsa(key.to_vec()),
                PublicKey::Ed25519(key) => Material::Ed25519(key.to_vec()),
            };
            keys.push(Key { id: None, material });
        }
        match keys.len() {
            0 => Err(InvalidKey::NoKeys),
            1..=KEYS_MAX => Ok(Keys(keys)),
            many => Err(InvalidKey::TooMany(many)),
        }
    }

    /// A JSON Web Key Set. Keys for other algorithms or purposes are ignored, secrets among them: a set is public.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn json(text: &[u8]) -> Result<Keys, InvalidKey> {
        let set: JsonKeys = serde_json::from_slice(text).map_err(|_| InvalidKey::NoKeys)?;
        if set.keys.len() > KEYS_MAX {
            return Err(InvalidKey::TooMany(set.keys.len()));
        }
        let parsed = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<Key> = parsed.filter_map(Key::of_json).collect();
        if keys.is_empty() { Err(InvalidKey::NoUsableKey) } else { Ok(Keys(keys)) }
    }

    /// Whether a text has this signature. `None`: there is no key of that name and algorithm.
    pub(super) fn verify(&self, algorithm: Algorithm, id: Option<&str>, text: &[u8], signature: &[u8]) -> Option<bool> {
        let fits = |key: &&Key| {
            let named = key.id.as_deref().zip(id).is_none_or(|(one, other)| one == other);
            named && key.material.algorithm() == algorithm
        };
        let mut verdict = None;
        for key in self.0.iter().filter(fits) {
            verdict = Some(key.material.verify(text, signature));
            if verdict == Some(true) {
                break;
            }
        }
        verdict
    }
}

impl Key {
    fn of_json(key: JsonKey) -> Option<Key> {
        let number = |text: Option<String>| {
            let bytes = URL_SAFE_NO_PAD.decode(text?).ok()?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            Some(bytes[zeros..].to_vec())
        };
        let is_for = |algorithm: &str| key.alg.as_deref().is_none_or(|alg| alg == algorithm);
        if key.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let material = match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", _) if is_for("RS256") => {
                Material::RsaNumbers(RsaPublicKeyComponents { n: number(key.n)?, e: number(key.e)? })
            }
            ("OKP", Some("Ed25519")) if is_for("EdDSA") || is_for("Ed25519") => {
                Material::Ed25519(URL_SAFE_NO_PAD.decode(key.x?).ok()?)
            }
            _ => return None,
        };
        Some(Key { id: key.kid, material })
    }
}

impl Material {
    fn algorithm(&self) -> Algorithm {
        match self {
            Material::Secret(_) => Algorithm::Hs256,
            Material::Rsa(_) | Material::RsaNumbers(_) => Algorithm::Rs256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verify(&self, text: &[u8], signature: &[u8]) -> bool {
        match self {
            // In constant time.
            Material::Secret(key) => hmac::verify(key, text, signature).is_ok(),
            Material::Rsa(key) => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).verify(text, signature).is_ok()
            }
            Material::RsaNumbers(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature).is_ok(),
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(text, signature).is_ok(),
        }
    }
}

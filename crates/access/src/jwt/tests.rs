//! Tokens of each algorithm, and each way to be wrong. Signatures are real.

use std::{
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use reveille_web::{Credentials, Grant};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use super::*;

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"a secret of at least 32 bytes ....";

/// What signs a token.
enum Signer {
    Secret(Vec<u8>),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    fn ed25519() -> Signer {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Signer::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("a key"))
    }

    /// Made by openssl, because the library makes none. `None`, and the test is skipped, without it.
    fn rsa() -> Option<Signer> {
        let mut command = Command::new("openssl");
        command.args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
        let made = command.output().ok().filter(|made| made.status.success());
        let Some(made) = made else {
            return reveille_pg::testing::skip("openssl, to make an RSA key");
        };
        let key = PrivatePkcs8KeyDer::from_pem_slice(&made.stdout).expect("a key");
        Some(Signer::Rsa(RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).expect("a key")))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Signer::Secret(_) => "HS256",
            Signer::Ed25519(_) => "EdDSA",
            Signer::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        match self {
            Signer::Secret(secret) => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text).as_ref().to_vec(),
            Signer::Ed25519(key) => key.sign(text).as_ref().to_vec(),
            Signer::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).expect("signed");
                signature
            }
        }
    }

    fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm(), "typ": "JWT"}), claims)
    }

    fn token_with(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header), encoded(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// Its public key, as a set has it.
    fn public(&self, id: &str) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Signer::Secret(secret) => json!({"kty": "oct", "kid": id, "k": text(secret)}),
            Signer::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": text(key.public_key().as_ref())})
            }
            Signer::Rsa(key) => {
                let numbers = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": text(&numbers.n), "e": text(&numbers.e)})
            }
        }
    }

    fn verifier(&self) -> Verifier {
        let keys = match self {
            Signer::Secret(secret) => Keys::secret(secret).expect("long enough"),
            _ => Keys::parse(json!({"keys": [self.public("one")]}).to_string().as_bytes()).expect("a set"),
        };
        fixed(keys)
    }
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn expected() -> Expected {
    Expected { role_claims: vec!["role".into(), "roles".into(), "realm_access.roles".into()], ..Expected::default() }
}

fn fixed(keys: Keys) -> Verifier {
    Verifier::new(Source::Fixed(keys), expected())
}

fn claims() -> Value {
    json!({"sub": "ann", "exp": NOW + 60, "role": "read-write"})
}

async fn reason(verifier: &Verifier, token: &str) -> String {
    verifier.verify_at(token, NOW).await.expect_err("rejected").to_string()
}

/// A token of each algorithm is accepted with its key, and with that of no other; one changed byte is noticed.
#[tokio::test]
async fn each_algorithm_verifies_its_own_tokens_only() {
    let rsa = Signer::rsa();
    let signers = [Some(Signer::Secret(SECRET.to_vec())), Some(Signer::ed25519()), Some(Signer::ed25519()), rsa];
    let signers: Vec<Signer> = signers.into_iter().flatten().collect();
    for (at, signer) in signers.iter().enumerate() {
        let token = signer.token(&claims());
        assert!(Verifier::is_token(&token));
        for (other_at, other) in signers.iter().enumerate() {
            let accepted = other.verifier().verify_at(&token, NOW).await;
            assert_eq!(
                accepted.is_ok(),
                at == other_at,
                "{} by {}: {accepted:?}",
                signer.algorithm(),
                other.algorithm()
            );
        }
        let (text, signature) = token.rsplit_once('.').expect("three parts");
        let (header, _) = text.split_once('.').expect("three parts");
        let forged =
            format!("{header}.{}.{signature}", encoded(&json!({"sub": "root", "exp": NOW + 60, "role": "admin"})));
        assert!(reason(&signer.verifier(), &forged).await.contains("signature"));
    }
}

/// No token chooses how it is verified: `none`, a public key as the secret of an HMAC, and extensions are rejected.
#[tokio::test]
async fn a_token_cannot_choose_its_algorithm() {
    let signer = Signer::ed25519();
    let verifier = signer.verifier();
    for algorithm in ["none", "None", "HS512", "ES256", "RS512", ""] {
        let token = format!("{}.{}.", encoded(&json!({"alg": algorithm})), encoded(&claims()));
        assert!(reason(&verifier, &token).await.contains("algorithm"), "{algorithm}");
    }
    let Signer::Ed25519(key) = &signer else { unreachable!("it is one") };
    let public = key.public_key().as_ref().to_vec();
    let confused = Signer::Secret(public).token(&claims());
    assert!(reason(&verifier, &confused).await.contains("unknown key or another algorithm"));
    let extended = signer.token_with(&json!({"alg": "EdDSA", "crit": ["b64"], "b64": false}), &claims());
    assert!(reason(&verifier, &extended).await.contains("crit"));
    let own_key = signer.token_with(&json!({"alg": "EdDSA", "jwk": Signer::ed25519().public("x")}), &claims());
    assert!(verifier.verify_at(&own_key, NOW).await.is_ok(), "keys in the token have no effect");
}

/// A token without its form is rejected, however long or odd it is.
#[tokio::test]
async fn other_texts_are_rejected() {
    let signer = Signer::Secret(SECRET.to_vec());
    let good = signer.token(&claims());
    let long = signer.token(&json!({"sub": "a".repeat(TOKEN_MAX), "exp": NOW + 60}));
    for text in ["", ".", "..", "a.b.c", "rvl_x", &format!("{good}."), &format!("{good}="), &good[1..], &long, "é.é.é"]
    {
        reason(&signer.verifier(), text).await;
    }
    let list = signer.token_with(&json!(["HS256"]), &claims());
    reason(&signer.verifier(), &list).await;
    assert!(reason(&signer.verifier(), &signer.token(&json!("text"))).await.contains("exp"));
}

/// Times, issuer and audience are checked, with half a minute for clocks that differ.
#[tokio::test]
async fn claims_are_checked() {
    let signer = Signer::Secret(SECRET.to_vec());
    let expected =
        Expected { issuer: Some("https://issuer.example".into()), audience: Some("reveille".into()), ..expected() };
    let verifier = Verifier::new(Source::Fixed(Keys::secret(SECRET).expect("long enough")), expected);
    let good = json!({"sub": "ann", "exp": NOW + 60, "iss": "https://issuer.example", "aud": "reveille"});
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        signer.token(&claims)
    };
    for token in [
        signer.token(&good),
        with("aud", json!(["other", "reveille"])),
        with("exp", json!(NOW - 29)),
        with("exp", json!(NOW as f64 + 0.5)),
        with("nbf", json!(NOW + 29)),
    ] {
        verifier.verify_at(&token, NOW).await.expect("accepted");
    }
    for (name, value, part) in [
        ("exp", json!(NOW - 30), "expired"),
        ("exp", Value::Null, "for ever"),
        ("exp", json!("tomorrow"), "no time"),
        ("exp", json!(-1), "no time"),
        ("nbf", json!(NOW + 31), "not valid yet"),
        ("nbf", json!({}), "no time"),
        ("iss", json!("https://other.example"), "another issuer"),
        ("iss", Value::Null, "another issuer"),
        ("aud", json!("other"), "another audience"),
        ("aud", json!([]), "another audience"),
        ("aud", Value::Null, "another audience"),
        ("sub", Value::Null, "no `sub`"),
        ("sub", json!(""), "`sub` is empty"),
        ("sub", json!("a\nb"), "control characters"),
        ("reveille_grants", json!(["root"]), "invalid grant"),
    ] {
        let said = reason(&verifier, &with(name, value.clone())).await;
        assert!(said.contains(part), "{name} {value}: {said}");
    }
}

/// Names of roles grant what is documented: those of Reveille, of Queen MQ and of the map; others grant nothing.
#[tokio::test]
async fn roles_are_read_from_their_claims() {
    let signer = Signer::Secret(SECRET.to_vec());
    let grants: Vec<Grant> = vec!["worker:queues=orders.*".parse().expect("a grant")];
    let expected = Expected { roles: RoleMap::from([("packers".to_owned(), grants)]), ..expected() };
    let verifier = Verifier::new(Source::Fixed(Keys::secret(SECRET).expect("long enough")), expected);
    for (more, granted, payloads) in [
        (json!({}), "", false),
        (json!({"role": "viewer"}), "viewer", false),
        (json!({"roles": ["viewer", "producer", "unknown"]}), "viewer producer", false),
        (json!({"role": "admin"}), "admin", true),
        (json!({"role": "admin", "reveille_payloads": false}), "admin", false),
        (json!({"role": "read-only"}), "viewer", true),
        (json!({"role": "write-only"}), "producer", false),
        (json!({"role": "read-write"}), "operator producer worker", true),
        (json!({"realm_access": {"roles": ["packers"]}}), "worker:queues=orders.*", false),
        (
            json!({"reveille_grants": ["viewer:namespaces=shop"], "reveille_payloads": true}),
            "viewer:namespaces=shop",
            true,
        ),
        (json!({"role": 7, "roles": {"admin": true}}), "", false),
    ] {
        let mut claims = json!({"sub": "ann", "exp": NOW + 60});
        claims.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let claims = verifier.verify_at(&signer.token(&claims), NOW).await.expect("accepted");
        let texts: Vec<String> = claims.grants.iter().map(ToString::to_string).collect();
        assert_eq!((texts.join(" ").as_str(), claims.payloads), (granted, payloads), "{more}");
        assert_eq!(claims.principal(Credentials::Jwt).name(), "ann");
    }
}

/// Keys that cannot be used are rejected with the reason; a set may contain others.
#[test]
fn unusable_keys_are_rejected() {
    let error = |text: &str| Keys::parse(text.as_bytes()).err().expect("rejected");
    assert_eq!(Keys::secret(&[0; 31]).err(), Some(InvalidKey::ShortSecret(31)));
    assert_eq!(error("ssh-ed25519 AAAA"), InvalidKey::NoKeys);
    assert_eq!(error("{"), InvalidKey::NoKeys);
    assert_eq!(error(r#"{"keys": []}"#), InvalidKey::NoUsableKey);
    let public_secret = json!({"keys": [Signer::Secret(SECRET.to_vec()).public("s")]}).to_string();
    assert_eq!(error(&public_secret), InvalidKey::NoUsableKey, "a public secret is none");
    assert_eq!(error(&json!({"keys": vec![json!({}); 65]}).to_string()), InvalidKey::TooMany(65));
    let encrypting = json!({"keys": [{"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"}]}).to_string();
    assert_eq!(error(&encrypting), InvalidKey::NoUsableKey);
    assert_eq!(error("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), InvalidKey::OtherAlgorithm);
}

/// Public keys in PEM verify tokens. Both kinds are made by openssl.
#[tokio::test]
async fn a_public_key_in_pem_verifies() {
    let Some(signer) = Signer::rsa() else { return };
    let ed25519 = Signer::ed25519();
    let der = |bytes: &[u8]| {
        let length = match bytes.len() {
            short @ 0..=0x7f => vec![short as u8],
            long => [vec![0x82], (long as u16).to_be_bytes().to_vec()].concat(),
        };
        [length, bytes.to_vec()].concat()
    };
    let info = |algorithm: &[u8], key: &[u8]| {
        let bits = [vec![0x03], der(&[&[0][..], key].concat())].concat();
        [vec![0x30], der(&[algorithm, &bits].concat())].concat()
    };
    let rsa_oid = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
    let infos = match (&signer, &ed25519) {
        (Signer::Rsa(rsa), Signer::Ed25519(ed)) => {
            [info(&rsa_oid, rsa.public().as_ref()), info(&[0x30, 5, 6, 3, 0x2b, 0x65, 0x70], ed.public_key().as_ref())]
        }
        _ => unreachable!("one of each"),
    };
    let base64 = base64::engine::general_purpose::STANDARD;
    let pem =
        |info: &Vec<u8>| format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", base64.encode(info));
    let verifier = fixed(Keys::parse(infos.iter().map(pem).collect::<String>().as_bytes()).expect("two keys"));
    for signer in [&signer, &ed25519] {
        verifier.verify_at(&signer.token(&claims()), NOW).await.expect("accepted");
    }
}

/// A provider of keys that counts its requests.
#[derive(Default)]
struct Provider {
    requests: AtomicUsize,
    set: parking_lot::Mutex<Option<String>>,
}

impl Fetch for Provider {
    fn send(&self, _: Outgoing) -> Fetched<'_> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let set = self.set.lock().clone();
        Box::pin(async move { set.map(String::into_bytes).ok_or_else(|| "no answer".to_owned()) })
    }
}

/// Keys at a URL are fetched once, for an unknown key at most once a minute, and stay in use if the URL fails.
/// Time is paused and advanced explicitly.
#[tokio::test(start_paused = true)]
async fn keys_at_a_url_are_fetched_rarely() {
    let provider = Arc::new(Provider::default());
    let remote = Remote::new("https://issuer.example/keys".into(), provider.clone());
    let verifier = Verifier::new(Source::Remote(remote), expected());
    let requests = || provider.requests.load(Ordering::Relaxed);
    let publish = |keys: &[Value]| *provider.set.lock() = Some(json!({"keys": keys}).to_string());
    let (old, new) = (Signer::ed25519(), Signer::ed25519());
    let token = |signer: &Signer, id: &str| signer.token_with(&json!({"alg": "EdDSA", "kid": id}), &claims());

    assert_eq!(verifier.verify_at(&token(&old, "old"), NOW).await.expect_err("no keys"), Rejected::KeysUnavailable);
    verifier.verify_at(&token(&old, "old"), NOW).await.expect_err("too early to ask again");
    assert_eq!(requests(), 1);
    publish(&[old.public("old")]);
    tokio::time::advance(Duration::from_secs(3)).await;
    for _ in 0..10 {
        verifier.verify_at(&token(&old, "old"), NOW).await.expect("accepted");
    }
    assert_eq!(requests(), 2);

    publish(&[old.public("old"), new.public("new")]);
    for _ in 0..10 {
        assert!(reason(&verifier, &token(&new, "new")).await.contains("unknown key"));
    }
    assert_eq!(requests(), 2, "the keys have just been fetched");
    tokio::time::advance(Duration::from_secs(61)).await;
    verifier.verify_at(&token(&new, "new"), NOW).await.expect("accepted");
    for _ in 0..10 {
        reason(&verifier, &token(&new, "made up")).await;
    }
    assert_eq!(requests(), 3, "tokens with unknown keys send no requests");

    *provider.set.lock() = None;
    tokio::time::advance(Duration::from_secs(2 * 60 * 60)).await;
    verifier.verify_at(&token(&old, "old"), NOW).await.expect("known keys stay in use");
}

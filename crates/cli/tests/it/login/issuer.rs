//! An OpenID provider with real signatures, as an HTTP server of its own.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A provider. Dropping it stops it.
pub(super) struct Issuer {
    pub(super) url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    key: Ed25519KeyPair,
    /// The id of the key.
    id: Mutex<String>,
    /// What its next ID tokens say, beyond what every one says.
    claims: Mutex<Value>,
    /// The requests for its codes.
    codes: Mutex<HashMap<String, HashMap<String, String>>>,
    fetched: AtomicUsize,
    url: String,
}

impl Issuer {
    pub(super) async fn start() -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let state = Arc::new(State {
            key: Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("a key"),
            id: Mutex::new("one".to_owned()),
            claims: Mutex::new(json!({})),
            codes: Mutex::default(),
            fetched: AtomicUsize::new(0),
            url: url.clone(),
        });
        let serving = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                tokio::spawn(async move { state.answer(stream).await });
            }
        });
        Issuer { url, state, task }
    }

    /// What its next tokens say.
    pub(super) fn says(&self, claims: Value) {
        *self.state.claims.lock() = claims;
    }

    /// How often its keys were fetched.
    pub(super) fn fetched(&self) -> usize {
        self.state.fetched.load(Ordering::Relaxed)
    }

    /// A token for an audience, signed with the key of that id.
    pub(super) fn token(&self, id: &str, audience: &str) -> String {
        self.state.token(id, audience, &Value::Null)
    }

    /// What its login page does when the user agrees: the query with which it sends the browser back.
    pub(super) fn agree(&self, location: &str) -> String {
        let (page, query) = location.split_once('?').expect("parameters");
        assert_eq!(page, format!("{}/authorize", self.url));
        let request = fields(query);
        assert_eq!((&*request["response_type"], &*request["code_challenge_method"]), ("code", "S256"));
        assert!(request["scope"].contains("openid"), "{request:?}");
        let code = format!("code-{}", self.state.codes.lock().len());
        let state = request["state"].clone();
        self.state.codes.lock().insert(code.clone(), request);
        format!("code={code}&state={state}")
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    async fn answer(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let begin = head.len();
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 || head[begin..].trim().is_empty() {
                break;
            }
            if let Some(value) = head[begin..].to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        let path = head.split(' ').nth(1).unwrap_or_default();
        let answer = match path {
            "/.well-known/openid-configuration" => Some(json!({
                "issuer": self.url,
                "authorization_endpoint": format!("{}/authorize", self.url),
                "token_endpoint": format!("{}/token", self.url),
                "jwks_uri": format!("{}/keys?version=1", self.url),
            })),
            "/keys?version=1" => {
                self.fetched.fetch_add(1, Ordering::Relaxed);
                let public = URL_SAFE_NO_PAD.encode(self.key.public_key().as_ref());
                Some(json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": *self.id.lock(), "x": public}]}))
            }
            "/token" => self.exchange(&head, &fields(std::str::from_utf8(&body).expect("text"))),
            _ => None,
        };
        let (status, body) = match answer {
            Some(body) => ("200 OK", body.to_string()),
            None => ("400 Bad Request", json!({"error": "invalid_grant"}).to_string()),
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let _ = stream.get_mut().write_all(answer.as_bytes()).await;
    }

    /// Exchanges a code, once, for the client that proves to have asked for it.
    fn exchange(&self, head: &str, form: &HashMap<String, String>) -> Option<Value> {
        let request = self.codes.lock().remove(form.get("code")?)?;
        // "reveille:a secret", each part encoded as a form.
        let authorized = head.contains("cmV2ZWlsbGU6YStzZWNyZXQ=");
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, form.get("code_verifier")?.as_bytes()));
        let fits =
            authorized && challenge == request["code_challenge"] && form["redirect_uri"] == request["redirect_uri"];
        let id = self.id.lock().clone();
        fits.then(|| json!({"id_token": self.token(&id, &request["client_id"], &json!(request["nonce"]))}))
    }

    fn token(&self, id: &str, audience: &str, nonce: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let mut claims = json!({"iss": self.url, "sub": "user-1", "aud": audience, "exp": now + 300, "iat": now});
        if !nonce.is_null() {
            claims["nonce"] = nonce.clone();
        }
        let more = self.claims.lock().clone();
        claims.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(json!({"alg": "EdDSA", "kid": id})), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(text.as_bytes()).as_ref());
        format!("{text}.{signature}")
    }
}

fn fields(query: &str) -> HashMap<String, String> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

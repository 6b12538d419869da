//! The stylesheet, the script and the icon. They are part of the program, and their addresses contain a hash of their
//! contents, so that browsers may keep them for ever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

/// A file as the browser gets it.
pub(crate) struct Asset {
    /// Its address below the console.
    pub(crate) address: String,
    kind: &'static str,
    text: &'static str,
}

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("console", "css", "text/css; charset=utf-8", include_str!("../assets/console.css")));
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "js", "text/javascript; charset=utf-8", include_str!("../assets/console.js"))
});
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg")));

impl Asset {
    fn new(name: &str, extension: &str, kind: &'static str, text: &'static str) -> Asset {
        let hash: String = Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Asset { address: format!("assets/{name}-{hash}.{extension}"), kind, text }
    }
}

/// `GET /console/assets/{file}`
pub(crate) async fn file(Path(file): Path<String>) -> Response {
    let assets = [&*STYLE, &*SCRIPT, &*ICON];
    match assets.into_iter().find(|asset| asset.address.strip_prefix("assets/") == Some(file.as_str())) {
        Some(asset) => {
            let headers =
                [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
            (headers, asset.text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

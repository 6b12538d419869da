//! A mirror of PostgreSQL's archives on loopback.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use reveille_pg::embedded::Installation;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A web server with a list of releases in the form of GitHub's API, and the files of each.
pub(super) struct Mirror {
    files: HashMap<String, Vec<u8>>,
    releases: Vec<String>,
    listener: TcpListener,
}

impl Mirror {
    pub(super) async fn new() -> Mirror {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Mirror { files: HashMap::new(), releases: Vec::new(), listener }
    }

    /// Adds a release with these files.
    pub(super) fn release(&mut self, version: &str, files: &[(&str, &[u8])]) {
        let address = self.listener.local_addr().expect("address");
        let assets = files.iter().map(|(name, bytes)| {
            let path = format!("/files/{version}/{name}");
            self.files.insert(path.clone(), bytes.to_vec());
            format!(r#"{{"name":"{name}","browser_download_url":"http://{address}{path}","size":{}}}"#, bytes.len())
        });
        let assets: Vec<String> = assets.collect();
        self.releases.push(format!(r#"{{"tag_name":"{version}","assets":[{}]}}"#, assets.join(",")));
    }

    /// Serves until the test ends; returns the address of the list.
    pub(super) fn serve(self) -> String {
        let url = format!("http://{}/releases", self.listener.local_addr().expect("address"));
        let list = format!("[{}]", self.releases.join(",")).into_bytes();
        let files = Arc::new(self.files);
        tokio::spawn(async move {
            while let Ok((client, _)) = self.listener.accept().await {
                tokio::spawn(answer(client, Arc::clone(&files), list.clone()));
            }
        });
        url
    }
}

async fn answer(mut client: TcpStream, files: Arc<HashMap<String, Vec<u8>>>, list: Vec<u8>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match client.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match path.split_once('?') {
        Some(("/releases", query)) if query.contains("page=1&") => ("200 OK", list),
        Some(("/releases", _)) => ("200 OK", b"[]".to_vec()),
        _ => files.get(path).map_or(("404 Not Found", Vec::new()), |bytes| ("200 OK", bytes.clone())),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = client.write_all(&[head.into_bytes(), body].concat()).await;
}

/// An archive of an installed PostgreSQL in the form that the project publishes: everything below one folder.
///
/// The folder above the programs of a system's package may hold less than that; the programs then find the rest where the
/// package put it.
pub(super) fn archive(installation: &Installation, work: &Path) -> Vec<u8> {
    let (top, root) = (work.join("postgresql"), installation.bin.parent().expect("a folder above the programs"));
    fs::create_dir_all(top.join("bin")).expect("make");
    for program in ["initdb", "pg_ctl", "postgres"] {
        fs::copy(installation.program(program), top.join("bin").join(program)).expect("copy");
    }
    let run = |command: &mut Command| assert!(command.status().expect("run").success(), "{command:?}");
    for part in ["lib", "share"] {
        if root.join(part).exists() {
            run(Command::new("cp").arg("-R").arg(root.join(part)).arg(&top));
        }
    }
    let file = work.join("archive.tar.gz");
    run(Command::new("tar").arg("-czf").arg(&file).arg("-C").arg(work).arg("postgresql"));
    fs::read(file).expect("read")
}

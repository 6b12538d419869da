//! The console below the path of a proxy.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::browser::Browser;
use crate::server::Server;

const PREFIX: &str = "/ops/reveille";

/// A proxy that serves `to` below [`PREFIX`], one request per connection.
async fn proxy(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    let mut byte = [0; 1024];
                    match client.read(&mut byte).await {
                        Ok(count) if count > 0 => head.extend_from_slice(&byte[..count]),
                        _ => return,
                    }
                }
                let head = String::from_utf8_lossy(&head).replacen(PREFIX, "", 1);
                let head =
                    head.replacen("\r\n", "\r\nconnection: close\r\n", 1).replace("\r\nConnection: keep-alive", "");
                let Ok(mut server) = TcpStream::connect(to).await else { return };
                let _ = server.write_all(head.as_bytes()).await;
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

/// Behind a proxy that serves Reveille below a path, all of the console must stay below it: assets, links, the change
/// stream. A proxy removes the prefix, and links are followed by clicks, two levels deep and back.
#[tokio::test]
async fn the_console_works_below_a_path() {
    let Some(browser) = Browser::start().await else { return };
    let server = Server::start(&[]).await;
    let root = format!("http://{}{PREFIX}/console", proxy(server.address).await);
    browser.open(&root).await;
    for key in ["q", "w", "o"] {
        browser.says("[data-pulse]", "live").await;
        browser.check().await;
        browser.click(&format!(".bar nav a[data-key={key}]")).await;
        browser.appears(&format!(".bar nav a[data-key={key}][aria-current]")).await;
        assert!(browser.address().await.starts_with(&root), "{}", browser.address().await);
    }
}

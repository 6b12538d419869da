//! Tests of connection URLs: every form is parsed, and no error repeats a secret.

use super::*;

fn address(url: &str) -> Address {
    Address::parse("url", url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn rejection(url: &str) -> String {
    Address::parse("url", url).err().unwrap_or_else(|| panic!("{url} was accepted")).to_string()
}

/// Each form of host list, port and target, with the expected hosts.
#[test]
fn hosts_are_read_in_every_form() {
    for (url, servers, primary_only) in [
        ("postgres://u:p@h/db", "h:5432", false),
        ("postgresql://u:p@h:1/db", "h:1", false),
        ("postgres://u:p@h:/db", "h:5432", false),
        ("postgres://u@[::1]:7/db", "[::1]:7", false),
        ("postgres://u@%2Frun%2Fpg:7/db", "/run/pg:7", false),
        ("postgres://u@/db?host=/run/pg&port=7", "/run/pg:7", false),
        ("postgres://u@a:1,b:2/db", "a:1,b:2", true),
        ("postgres://u@a,b:2/db?port=9", "a:9,b:9", true),
        ("postgres://u@a:1,b:2/db?target_session_attrs=any", "a:1,b:2", false),
        ("postgres://u@a/db?target_session_attrs=read-write", "a:5432", true),
        ("postgres://u@/db?host=a,b,c&port=1,2,3&target_session_attrs=primary", "a:1,b:2,c:3", true),
        ("postgres://u@[::1]:1,10.0.0.1:2/db", "[::1]:1,10.0.0.1:2", true),
    ] {
        let address = address(url);
        assert_eq!((address.servers().as_str(), address.primary_only), (servers, primary_only), "{url}");
    }
}

/// User, password, database and parameters reach the driver decoded, for every host alike.
#[test]
fn the_rest_reaches_every_host() {
    let url = "postgres://an%40a:p%2F%3A%23%25@a,b/my%20db?sslmode=require&application_name=x%26y&connect_timeout=9";
    let address = address(url);
    assert_eq!(address.host_timeout, Duration::from_secs(9));
    assert_eq!(address.identity(), "an@a@a:5432,b:5432/my db");
    for host in &address.hosts {
        assert_eq!(host.get_username(), "an@a");
        assert_eq!(host.get_database(), Some("my db"));
        assert_eq!(host.get_application_name(), Some("x&y"));
        assert!(matches!(host.get_ssl_mode(), sqlx::postgres::PgSslMode::Require));
        // The driver's debug text contains the password, so ours never prints it.
        assert!(format!("{host:?}").contains("\"p/:#%\""));
    }
}

/// An error names the invalid part or parameter and the valid forms.
#[test]
fn mistakes_are_named() {
    for (url, part) in [
        ("mysql://h/db", "postgres://"),
        ("h:5432/db", "postgres://"),
        ("postgres://h:0/db", "port"),
        ("postgres://h/db?sslrootcert=/no/such/root.pem", "`sslrootcert`"),
        ("postgres://h/db?sslcert=/no/such/own.pem", "`sslcert`"),
        ("postgres://h/db?sslkey=/no/such/own.key", "`sslkey`"),
        ("postgres://h:70000/db", "port"),
        ("postgres://h:x/db", "port"),
        ("postgres://a,,b/db", "empty"),
        ("postgres://[::1/db", "`]`"),
        ("postgres://h/db?port=1,2", "2 ports for 1 hosts"),
        ("postgres://h/db?sslmod=require", "`sslmod`"),
        ("postgres://h/db?sslmode=on", "`sslmode`"),
        ("postgres://h/db?target_session_attrs=standby", "`target_session_attrs`"),
        ("postgres://h/db?connect_timeout=soon", "`connect_timeout`"),
        ("postgres://h/db?channel_binding=require", "`channel_binding`"),
        ("postgres://h/db?sslmode", "parameter 1"),
        ("postgres://h/%zz", "database"),
        ("postgres://u:%ff@h/db", "password"),
        ("postgres://u:%00@h/db", "password"),
    ] {
        let error = rejection(url);
        assert!(error.starts_with("option `url`: ") && error.contains(part), "{url}: {error}");
    }
    let many = vec!["h"; 17].join(",");
    assert!(rejection(&format!("postgres://{many}/db")).contains("17 hosts"));
}

/// A password that should have been encoded must not come back in the error it causes, wherever it was cut.
#[test]
fn no_error_repeats_a_piece_of_the_password() {
    for url in [
        "postgres://u:SECRET/SECRET@h/db",
        "postgres://u:SECRET?SECRET@h/db",
        "postgres://u:SECRET#SECRET@h/db",
        "postgres://u:x@x?SECRET=1@h/db",
        "postgres://u:x@x?SECRET=%zz@h/db",
        "postgres://u:SECRET:SECRET",
        "postgres://u:%SECRET@h/db",
        "postgres://u:SECRET@h:SECRET/db",
        "SECRET",
    ] {
        let error = Address::parse("url", url).err().unwrap_or_else(|| panic!("{url} was accepted"));
        assert!(!format!("{error} {error:?}").contains("SECRET"), "{url}: {error}");
    }
}

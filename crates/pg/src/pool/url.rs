//! Connection URLs, with any number of hosts.
//!
//! `postgres://user:password@host:port/database?parameter=value`, where `host:port` may be a comma-separated list, or
//! given as `host=a,b&port=1,2`. sqlx supports one host only, warns about unknown parameters and prints their values;
//! here every part is checked first, and sqlx gets one valid URL per host.
//!
//! An error names the invalid part and the valid forms. It never repeats a value, and repeats a parameter's name only
//! where it cannot be a piece of an unencoded password.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use crate::{Error, Result};

/// How long one host may take to accept a connection before the next is tried; `connect_timeout` in the URL changes it.
/// Long enough for TLS across a continent, short enough that two dead hosts fit into an acquire timeout.
const HOST_TIMEOUT: Duration = Duration::from_secs(3);

/// More than any cluster has standbys; a longer list is a mistake, and probing it would take minutes.
const MAX_HOSTS: usize = 16;

/// Parameters passed to sqlx unchanged.
const PASSED_ON: &[&str] =
    &["application_name", "dbname", "options", "password", "sslcert", "sslkey", "sslmode", "sslrootcert", "user"];

const SSL_MODES: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Where to connect: one or more hosts of one cluster, the same user and database on each.
#[derive(Clone)]
pub(super) struct Address {
    /// In the order of the URL; at least one.
    pub(super) hosts: Vec<PgConnectOptions>,
    /// Whether a host counts only if it accepts writes.
    pub(super) primary_only: bool,
    /// How long one host may take.
    pub(super) host_timeout: Duration,
    /// Whether the URL itself gives an `application_name`.
    pub(super) is_named: bool,
}

impl Address {
    /// The address of an existing pool.
    pub(super) fn of(options: &PgConnectOptions) -> Address {
        let is_named = options.get_application_name().is_some();
        Address { hosts: vec![options.clone()], primary_only: false, host_timeout: HOST_TIMEOUT, is_named }
    }

    /// Parses the value of the option called `option`.
    pub(super) fn parse(option: &str, url: &str) -> Result<Address> {
        parse(url).map_err(|reason| Error::config(option, reason))
    }

    /// `host:port` of all hosts, for messages.
    pub(super) fn servers(&self) -> String {
        self.hosts.iter().map(server).collect::<Vec<_>>().join(",")
    }

    /// `user@host:port/database`, without any secret.
    pub(super) fn identity(&self) -> String {
        let user = self.hosts[0].get_username();
        format!("{user}@{}/{}", self.servers(), self.hosts[0].get_database().unwrap_or(user))
    }
}

/// `host:port` of one host, for messages.
pub(super) fn server(options: &PgConnectOptions) -> String {
    let port = options.get_port();
    match options.get_socket() {
        Some(folder) => format!("{}:{port}", folder.display()),
        None if options.get_host().contains(':') => format!("[{}]:{port}", options.get_host()),
        None => format!("{}:{port}", options.get_host()),
    }
}

type Parsed<T> = std::result::Result<T, String>;

fn parse(url: &str) -> Parsed<Address> {
    let rest = url
        .strip_prefix("postgres://")
        .or_else(|| url.strip_prefix("postgresql://"))
        .ok_or("it must start with postgres:// or postgresql://")?;
    if rest.contains('#') {
        return Err("it contains `#`, which must be written %23".into());
    }
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if !authority.contains('@') && tail.contains('@') {
        return Err("a `/`, `?` or `@` in the user or password must be percent-encoded (%2F, %3F, %40)".into());
    }
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let (login, host_list) = authority.rsplit_once('@').unwrap_or(("", authority));

    let mut fields = Vec::new();
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    if !user.is_empty() {
        fields.push(("user".to_owned(), decode("user", user)?));
    }
    if let Some(password) = password {
        fields.push(("password".to_owned(), decode("password", password)?));
    }
    match path.strip_prefix('/').unwrap_or_default() {
        "" => {}
        database => fields.push(("dbname".to_owned(), decode("database", database)?)),
    }

    let mut hosts = split_hosts(host_list)?;
    let mut target = None;
    let mut host_timeout = HOST_TIMEOUT;
    let mut ports = None;
    for (number, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("parameter {} has no `=`", number + 1))?;
        let key = decode("parameter name", key)?;
        let value = decode(&format!("parameter {}", number + 1), value)?;
        match key.as_str() {
            "host" => hosts = value.split(',').map(|host| (host.to_owned(), None)).collect(),
            "port" => ports = Some(value.split(',').map(port).collect::<Parsed<Vec<u16>>>()?),
            "target_session_attrs" => target = Some(is_primary_only(&value)?),
            "connect_timeout" => host_timeout = seconds(&value)?,
            "channel_binding" if value == "prefer" || value == "disable" => {}
            "channel_binding" => return Err("`channel_binding` can be prefer or disable, not require".into()),
            "sslmode" if !SSL_MODES.contains(&value.as_str()) => {
                return Err(format!("`sslmode` must be one of {}", SSL_MODES.join(", ")));
            }
            "sslrootcert" | "sslcert" | "sslkey" => {
                readable(&key, &value)?;
                fields.push((key, value));
            }
            _ if PASSED_ON.contains(&key.as_str()) || is_startup_option(&key) => fields.push((key, value)),
            _ => return Err(unknown(&key, number, tail)),
        }
    }
    give_ports(&mut hosts, ports)?;

    let is_named = fields.iter().any(|(key, _)| key == "application_name");
    let primary_only = target.unwrap_or(hosts.len() > 1);
    let hosts = hosts.iter().map(|host| options(host, &fields)).collect::<Parsed<Vec<_>>>()?;
    Ok(Address { hosts, primary_only, host_timeout, is_named })
}

/// A host (empty means the driver's default) and its port (`None` means the default one).
type Host = (String, Option<u16>);

fn split_hosts(list: &str) -> Parsed<Vec<Host>> {
    list.split(',')
        .map(|entry| {
            let (host, after) = match entry.strip_prefix('[') {
                Some(v6) => v6.split_once(']').ok_or("an IPv6 address lacks its closing `]`")?,
                None => entry.split_at(entry.find(':').unwrap_or(entry.len())),
            };
            let port = match after.strip_prefix(':') {
                Some("") => None,
                Some(number) => Some(port(number)?),
                None if after.is_empty() => None,
                None => return Err("there is text between an IPv6 address and its port".into()),
            };
            Ok((decode("host", host)?, port))
        })
        .collect()
}

fn give_ports(hosts: &mut [Host], ports: Option<Vec<u16>>) -> Parsed<()> {
    if hosts.len() > MAX_HOSTS {
        return Err(format!("it names {} hosts, at most {MAX_HOSTS} are tried", hosts.len()));
    }
    if hosts.len() > 1 && hosts.iter().any(|(host, _)| host.is_empty()) {
        return Err("a host in the list is empty".into());
    }
    let Some(ports) = ports else { return Ok(()) };
    if ports.len() != 1 && ports.len() != hosts.len() {
        return Err(format!("`port` lists {} ports for {} hosts", ports.len(), hosts.len()));
    }
    for (host, port) in hosts.iter_mut().zip(ports.iter().cycle()) {
        host.1 = Some(*port);
    }
    Ok(())
}

/// The options of one host. They are parsed from a URL in which every value is encoded, so that sqlx applies its
/// defaults (the password file and the `PG…` variables).
fn options((host, port): &Host, fields: &[(String, String)]) -> Parsed<PgConnectOptions> {
    let mut url = String::from("postgres:///?");
    let host = (!host.is_empty()).then(|| ("host", host.clone()));
    let port = port.map(|port| ("port", port.to_string()));
    let fields = fields.iter().map(|(key, value)| (key.as_str(), value.clone()));
    for (key, value) in host.into_iter().chain(port).chain(fields) {
        url.push_str(&format!("{}={}&", encode(key), encode(&value)));
    }
    PgConnectOptions::from_str(url.trim_end_matches('&')).map_err(|_| "the driver cannot use it".into())
}

/// Checks that a certificate or key file can be read. The driver would fail only when it connects, without naming it.
fn readable(parameter: &str, value: &str) -> Parsed<()> {
    let is_inline = value.trim_start().starts_with("-----BEGIN");
    match std::fs::File::open(value) {
        Err(error) if !is_inline => Err(format!("the file that `{parameter}` names cannot be read: {}", error.kind())),
        _ => Ok(()),
    }
}

fn is_primary_only(value: &str) -> Parsed<bool> {
    match value {
        "any" => Ok(false),
        "read-write" | "primary" => Ok(true),
        "read-only" | "standby" | "prefer-standby" => {
            Err("`target_session_attrs` must be read-write, primary or any: a standby cannot be written to".into())
        }
        _ => Err("`target_session_attrs` must be read-write, primary or any".into()),
    }
}

fn port(text: &str) -> Parsed<u16> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err("a port is not a number from 1 to 65535 (a `:` in the password must be written %3A)".into()),
    }
}

fn seconds(text: &str) -> Parsed<Duration> {
    match text.parse::<u32>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
        _ => Err("`connect_timeout` must be a whole number of seconds, at least 1".into()),
    }
}

fn is_startup_option(key: &str) -> bool {
    key.strip_prefix("options[").and_then(|rest| rest.strip_suffix(']')).is_some_and(|name| !name.is_empty())
}

fn unknown(key: &str, number: usize, tail: &str) -> String {
    let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let which = match plain && !key.is_empty() && !tail.contains('@') {
        true => format!("`{key}`"),
        false => (number + 1).to_string(),
    };
    let known = "host, port, target_session_attrs, connect_timeout, channel_binding";
    format!("unknown parameter {which}; allowed are {known}, {}", PASSED_ON.join(", "))
}

fn decode(part: &str, text: &str) -> Parsed<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digits = [rest.next(), rest.next()].map(|b| b.and_then(|b| char::from(b).to_digit(16)));
            match digits {
                [Some(high), Some(low)] => (high * 16 + low) as u8,
                _ => return Err(format!("in its {part}, `%` is not followed by two hexadecimal digits (write %25)")),
            }
        } else {
            byte
        });
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(format!("its {part} is not valid text")),
    }
}

fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;

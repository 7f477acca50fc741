//! The URL of a database: the options that the client library supports, and those that only this engine supports.
//!
//! The library supports `sslmode` only up to `require`, and does not support `sslrootcert`. Both are parsed here.

use crate::StoreError;
use crate::connections::login::{Login, Password};
use crate::connections::tls::{Tls, Verification};
use percent_encoding::percent_decode_str;
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};

/// The timeout for connecting to a host. It is short because there may be other hosts to try.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
const CONNECT_TIME_OF_SEVERAL_MAX: Duration = Duration::from_millis(1500);
/// The timeout for the rest of a new connection: name resolution, TLS and login.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(3);
/// The time without a response after which a connection counts as lost, even though it was not closed.
const UNRESPONSIVE_MAX: Duration = Duration::from_secs(10);
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// The option that contains the password, both in a URL and in a string of the form `key=value`.
const PASSWORD_OPTION: &str = "password=";

/// The URL of a database, as it is used.
#[derive(Clone)]
pub struct Settings {
    /// The login at all hosts. A connection uses the first host that responds.
    pub(crate) login: Login,
    pub(crate) tls: Tls,
    /// The maximum duration of connecting, if all hosts but the last are unresponsive.
    pub(crate) connect_time_max: Duration,
    /// Hosts, ports and database, for messages; never contains a password.
    pub place: String,
    /// The nodes to which requests are sent. With `load_balance_hosts=random`, each host is a node. Otherwise, all
    /// hosts together are one node, because only one of them accepts writes.
    pub(crate) nodes: Vec<NodeSettings>,
    /// Whether each host is a node.
    pub has_equal_nodes: bool,
}

#[derive(Clone)]
pub(crate) struct NodeSettings {
    /// Host and port. If the node is whichever of several hosts accepts writes, the name contains all of them,
    /// separated by commas.
    pub(crate) name: String,
    pub(crate) login: Login,
    pub(crate) connect_time_max: Duration,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads a URL. `password` is used if the URL contains no password.
    pub fn new(url: &str, password: Option<&Password>) -> Result<Self, StoreError> {
        check_address(url)?;
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut mode, mut root, mut is_any) = (String::new(), None, None, true);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = percent_decode_str(value).decode_utf8();
            let text = text.map_err(|_| StoreError::address("the value of an option is not UTF-8"))?;
            match name {
                "sslmode" => mode = Some(text.into_owned()),
                "sslrootcert" => root = Some(text.into_owned()),
                _ => {
                    is_any &= name != "target_session_attrs";
                    write!(kept, "{}{pair}", if kept.is_empty() { '?' } else { '&' })
                        .expect("writing to a string cannot fail");
                }
            }
        }
        let config = Config::from_str(&format!("{address}{kept}"));
        let mut config = config.map_err(|error| {
            // The library's error message contains the name of the invalid option, not its value. However, what looks
            // like the name of an option may be the end of a password.
            if percent_decode_str(query).decode_utf8_lossy().contains(PASSWORD_OPTION) {
                StoreError::address("its port or one of its options is not valid; write & in the password as %26")
            } else {
                StoreError::address(crate::connections::attempt::describe(&error))
            }
        })?;
        let verification = verification(mode.as_deref(), root.is_some(), &mut config)?;
        let root = root.filter(|root| root != "system");
        let tls = Tls::new(verification, root.as_deref().map(Path::new))?;
        if is_any {
            // If there are several hosts, all but one are replicas. A single host may become a replica.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let hosts = config.get_hosts().len();
        let each = if hosts > 1 { CONNECT_TIME_OF_SEVERAL_MAX } else { CONNECT_TIME_MAX };
        let each = *config.get_connect_timeout().unwrap_or(&each);
        config.connect_timeout(each);
        let connect_time_max = each * u32::try_from(hosts).unwrap_or(1) + LOGIN_TIME_MAX;
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNRESPONSIVE_MAX);
        }
        config.keepalives_idle(UNRESPONSIVE_MAX);
        if config.get_application_name().is_none() {
            config.application_name("rowhouse");
        }
        let place = place(&config);
        let has_equal_nodes = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
        let login = Login::new(config, password.cloned());
        let nodes = if has_equal_nodes {
            nodes(&login, each + LOGIN_TIME_MAX)?
        } else {
            vec![NodeSettings {
                name: names(login.without_password()).join(","),
                login: login.clone(),
                connect_time_max,
            }]
        };
        Ok(Self { login, tls, connect_time_max, place, nodes, has_equal_nodes })
    }
}

impl Settings {
    pub(crate) fn at(&self, host: &str, port: u16) -> Login {
        let mut node = without_hosts(self.login.without_password());
        node.host(host).port(port);
        self.login.with(node)
    }

    /// Returns the settings for connections to one node of a cluster.
    pub fn of_node(&self, host: &str, port: u16) -> Self {
        let node = self.node_at(host, port);
        Self {
            login: node.login.clone(),
            tls: self.tls.clone(),
            connect_time_max: node.connect_time_max,
            place: place(node.login.without_password()),
            nodes: vec![node],
            has_equal_nodes: false,
        }
    }

    pub(crate) fn node_at(&self, host: &str, port: u16) -> NodeSettings {
        let login = self.at(host, port);
        let config = login.without_password();
        let connect_time_max = *config.get_connect_timeout().unwrap_or(&CONNECT_TIME_MAX) + LOGIN_TIME_MAX;
        NodeSettings { name: names(config).join(","), login, connect_time_max }
    }
}

/// A connection that leads to a replica is rejected, as it is for hosts that are tried in turn.
fn nodes(login: &Login, connect_time_max: Duration) -> Result<Vec<NodeSettings>, StoreError> {
    let config = login.without_password();
    let names = names(config);
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() && addresses.len() != names.len() {
        return Err(StoreError::address("the number of values in hostaddr differs from the number of hosts"));
    }
    let mut nodes: Vec<NodeSettings> = Vec::with_capacity(names.len());
    for (index, (host, name)) in config.get_hosts().iter().zip(names).enumerate() {
        if nodes.iter().any(|node| node.name == name) {
            return Err(StoreError::address(
                "it contains a host twice; with load_balance_hosts=random, each host is a node",
            ));
        }
        let mut node = without_hosts(config);
        match host {
            Host::Tcp(name) => node.host(name),
            #[cfg(unix)]
            Host::Unix(folder) => node.host_path(folder),
        };
        if let Some(address) = addresses.get(index) {
            node.hostaddr(*address);
        }
        node.port(port(config, index));
        nodes.push(NodeSettings { name, login: login.with(node), connect_time_max });
    }
    if nodes.is_empty() {
        return Err(StoreError::address("with load_balance_hosts=random, it must contain host names"));
    }
    Ok(nodes)
}

fn without_hosts(config: &Config) -> Config {
    let mut rest = Config::new();
    if let Some(user) = config.get_user() {
        rest.user(user);
    }
    if let Some(password) = config.get_password() {
        rest.password(password);
    }
    if let Some(database) = config.get_dbname() {
        rest.dbname(database);
    }
    if let Some(options) = config.get_options() {
        rest.options(options);
    }
    if let Some(name) = config.get_application_name() {
        rest.application_name(name);
    }
    if let Some(time) = config.get_connect_timeout() {
        rest.connect_timeout(*time);
    }
    if let Some(time) = config.get_tcp_user_timeout() {
        rest.tcp_user_timeout(*time);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        rest.keepalives_interval(interval);
    }
    if let Some(count) = config.get_keepalives_retries() {
        rest.keepalives_retries(count);
    }
    rest.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs());
    rest
}

/// Returns whether a string that is meant to be a URL contains a password, whatever the rest of the string looks like.
pub fn has_password(url: &str) -> bool {
    let is_with_user = || {
        let (_, rest) = url.split_once("://")?;
        let (user, _) = rest.rsplit_once('@')?;
        Some(user.contains(':'))
    };
    let decoded = percent_decode_str(url).decode_utf8_lossy().replace(' ', "");
    decoded.contains(PASSWORD_OPTION) || is_with_user().unwrap_or(false)
}

/// Rejects a string that is not a URL, or in which it is unclear where the password ends. In the latter case, part of
/// the password would be treated as the host, and hosts are shown in messages. The error never contains any part of the
/// string.
pub fn check_address(url: &str) -> Result<(), StoreError> {
    let Some(rest) = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return Err(StoreError::address("it does not begin with postgres://"));
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if rest.matches('@').count() == authority.matches('@').count().min(1) {
        return Ok(());
    }
    Err(StoreError::address(
        "it is unclear where its user and password end; in them and in the options, write @ as %40, / as %2F and ? as \
         %3F, or put the password into a file and name that",
    ))
}

/// Returns how `mode` requires the certificate to be verified, and sets the library's mode. As in PostgreSQL's own
/// library, `require` with a root certificate verifies the certificate.
fn verification(mode: Option<&str>, has_root: bool, config: &mut Config) -> Result<Verification, StoreError> {
    let (mode, verification) = match mode {
        Some("disable") => (SslMode::Disable, Verification::None),
        None | Some("allow" | "prefer") => (SslMode::Prefer, Verification::None),
        Some("require") if has_root => (SslMode::Require, Verification::Authority),
        Some("require") => (SslMode::Require, Verification::None),
        Some("verify-ca") => (SslMode::Require, Verification::Authority),
        Some("verify-full") => (SslMode::Require, Verification::AuthorityAndName),
        Some(_) => {
            return Err(StoreError::address("sslmode must be disable, prefer, require, verify-ca or verify-full"));
        }
    };
    config.ssl_mode(mode);
    Ok(verification)
}

fn place(config: &Config) -> String {
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("'{database}' at {}", names(config).join(","))
}

fn names(config: &Config) -> Vec<String> {
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let port = port(config, index);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    hosts.collect()
}

fn port(config: &Config, index: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(index).or(ports.first()).copied().unwrap_or(5432)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_taken_from_beside_and_never_shown() {
        let settings =
            Settings::new("postgres://me@db.example:7/tables?application_name=x", Some(&"secret".to_owned().into()))
                .unwrap();
        assert_eq!(settings.login.current().await.get_password(), Some(&b"secret"[..]));
        assert_eq!(settings.login.without_password().get_application_name(), Some("x"));
        assert_eq!(settings.place, "'tables' at db.example:7");
        let settings = Settings::new("postgresql://me:inside@a,b/t", Some(&"secret".to_owned().into())).unwrap();
        assert_eq!(settings.login.current().await.get_password(), Some(&b"inside"[..]));
        assert!(has_password("postgres://me:inside@a/t?sslmode=verify-full"));
        assert!(!has_password("postgres://me@a/t") && !has_password("nonsense"));
        for url in [
            "postgres://me@a/t?password=inside",
            "postgres://a/t?sslmode=disable&p%61ssword=inside",
            "host=a user=me password = inside",
            "postgres://me:in@side@a/t",
            "postgres://me:in/side?@a/t",
            "mysql://me:inside@a/t",
        ] {
            assert!(has_password(url), "{url}");
        }
        assert!(!has_password("postgres://a:5432/passwords?sslmode=disable"));
        for bad in ["postgres://me:inside@a:port/t", "mysql://me:inside@a/t", "postgres://me:inside@a/t?inside=1"] {
            let error = Settings::new(bad, None).err().unwrap().to_string();
            assert!(error.contains("postgres://USER@HOST"), "{error}");
            assert!(!error.contains("me:inside"), "{error}");
        }
    }

    #[test]
    fn an_address_in_which_the_password_may_end_elsewhere_is_refused_and_not_shown() {
        for bad in [
            "postgres://me:in@side@db/t",
            "postgres://me:in/side@db/t",
            "postgres://me:in?side@db/t",
            "postgres://db/t?password=in@side",
            "postgres://me@db/t?password=in@side",
            "postgres://me@db/t?password=in&side",
            "postgres://me@db/t?password=in&side=1",
            "postgres://me@db/t?password=in&side=%FF",
            "host=db password=inside",
        ] {
            let error = Settings::new(bad, None).err().unwrap_or_else(|| panic!("{bad} is accepted")).to_string();
            assert!(error.contains("postgres://USER@HOST"), "{error}");
            assert!(!error.contains("side") && !error.contains("inside"), "{bad}: {error}");
        }
        for good in
            ["postgres://me:in%40side@db/t", "postgres://me@db/t?password=in%40s%26ide", "postgres:///t?host=/run"]
        {
            let settings = Settings::new(good, None).unwrap();
            assert!(!settings.place.contains("in"), "{}", settings.place);
        }
    }

    #[test]
    fn the_one_that_writes_is_meant_and_every_host_gets_its_time() {
        let settings = |url| Settings::new(url, None).unwrap();
        let one = settings("postgres://me@a/t");
        assert_eq!(one.login.without_password().get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(one.connect_time_max, CONNECT_TIME_MAX + LOGIN_TIME_MAX);
        let three = settings("postgres://me@a,b:7,c/t?target_session_attrs=any");
        assert_eq!(three.login.without_password().get_target_session_attrs(), TargetSessionAttrs::Any);
        assert_eq!(three.connect_time_max, 3 * CONNECT_TIME_OF_SEVERAL_MAX + LOGIN_TIME_MAX);
        assert_eq!(three.login.without_password().get_connect_timeout(), Some(&CONNECT_TIME_OF_SEVERAL_MAX));
        let patient = settings("postgres://me@a,b/t?connect_timeout=4");
        assert_eq!(patient.connect_time_max, Duration::from_secs(8) + LOGIN_TIME_MAX);
    }

    #[test]
    fn hosts_are_nodes_when_the_load_is_balanced_over_them() {
        let settings = |url: &str| Settings::new(url, None).unwrap();
        let names = |settings: &Settings| settings.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&settings("postgres://me@a,b:7/t")), ["a:5432,b:7"]);
        assert_eq!(names(&settings("postgres://me@a,b:7/t?load_balance_hosts=disable")), ["a:5432,b:7"]);
        let url = "postgres://me:inside@a,b:7,c/t?load_balance_hosts=random&keepalives_retries=3&options=-c%20jit=off\
                   &connect_timeout=2&sslmode=require&application_name=x&channel_binding=disable";
        let balanced = settings(url);
        assert_eq!(names(&balanced), ["a:5432", "b:7", "c:5432"]);
        for node in &balanced.nodes {
            assert_eq!(node.connect_time_max, Duration::from_secs(2) + LOGIN_TIME_MAX);
            let mut expected = settings(&url.replace("a,b:7,c", &node.name).replace("random", "disable"))
                .login
                .without_password()
                .clone();
            expected.load_balance_hosts(node.login.without_password().get_load_balance_hosts());
            assert_eq!(*node.login.without_password(), expected, "a node keeps every other option of the address");
            assert_eq!(node.login.without_password().get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        for bad in [
            "postgres://me@a,a:5432/t?load_balance_hosts=random",
            "postgres://me@a,b/t?load_balance_hosts=random&hostaddr=127.0.0.1",
            "postgres:///t?load_balance_hosts=random&hostaddr=127.0.0.1",
        ] {
            assert!(Settings::new(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_modes_of_tls() {
        let mode = |query: &str| {
            let settings = Settings::new(&format!("postgres://me@a/t{query}"), None)?;
            Ok::<_, StoreError>((settings.login.without_password().get_ssl_mode(), settings.tls.verification()))
        };
        assert_eq!(mode("").unwrap(), (SslMode::Prefer, Verification::None));
        assert_eq!(mode("?sslmode=disable").unwrap(), (SslMode::Disable, Verification::None));
        assert_eq!(mode("?sslmode=require").unwrap(), (SslMode::Require, Verification::None));
        assert!(mode("?sslmode=yes").is_err());
        assert!(
            mode("?sslmode=verify-full&sslrootcert=/nowhere/at/all.pem").unwrap_err().to_string().contains("/nowhere")
        );
    }
}

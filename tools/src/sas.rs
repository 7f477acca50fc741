//! `rowhouse sas`: creates shared access signatures (specification 08).
//!
//! Keys come from the same sources as the server's keys, never from the command line. The caller passes the time.

use crate::option_values::{parse_duration, parse_table};
use crate::terminal::print;
use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use model::{AccountName, DateTime, Permissions};
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use wire::sas::{Fields, SasError, parse_time, verify};
use wire::signing::AccountKey;

/// The options of `sas` as given, without validation or defaults.
#[derive(Debug, Args)]
pub struct SasArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Create a token for the entities in one table
    #[command(after_long_help = TABLE_TOKEN_EXAMPLES)]
    Table(TableTokenArgs),
    /// Create a token for the whole account: tables, entities and service properties
    #[command(after_long_help = ACCOUNT_TOKEN_EXAMPLES)]
    Account(AccountTokenArgs),
}

const TABLE_TOKEN_EXAMPLES: &str = "\
Examples:
  rowhouse sas table Harvest --permissions r --expiry 8h
      read everything in the table for eight hours
  rowhouse sas table Harvest --permissions rau --expiry 30d --from-partition north --to-partition north
      read and write one partition; both bounds are inclusive
  rowhouse sas table Harvest --policy mobile
      with the permissions and times of the table's stored access policy 'mobile'; change or delete it to revoke the token

A token cannot be revoked individually: it is valid until it expires, the key that signed it is changed, or its policy is \
deleted. A token must not repeat a field that its policy sets.";

const ACCOUNT_TOKEN_EXAMPLES: &str = "\
Examples:
  rowhouse sas account --permissions rl --expiry 1d
      list tables and read all entities for one day
  rowhouse sas account --permissions rau --resources o --expiry 7d --ip 203.0.113.4-203.0.113.9 --protocol https
      read and write entities, but not tables, from a few addresses, only over HTTPS
  ROWHOUSE_ACCOUNTS=accounts.toml rowhouse sas account --account orchard --key 2 --permissions rwdlacu --expiry 1h
      everything that a token can allow, signed with the second key of account 'orchard'

No token allows reading or setting table policies.";

#[derive(Debug, Args)]
struct TableTokenArgs {
    /// Table that the token is for
    table: String,

    /// Permissions, as letters: r (read), a (add), u (update), d (delete); insert-or-replace needs a and u
    #[arg(long, value_name = "LETTERS", required_unless_present = "policy")]
    permissions: Option<String>,

    /// Stored access policy of the table that supplies the fields omitted from the token
    #[arg(long, value_name = "ID")]
    policy: Option<String>,

    /// First partition key of the range
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from_partition: Option<String>,

    /// First row key in the first partition
    #[arg(long, value_name = "KEY", requires = "from_partition", allow_hyphen_values = true)]
    from_row: Option<String>,

    /// Last partition key of the range
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to_partition: Option<String>,

    /// Last row key in the last partition
    #[arg(long, value_name = "KEY", requires = "to_partition", allow_hyphen_values = true)]
    to_row: Option<String>,

    /// Expiry of the token: a time such as 2031-04-01 or 2031-04-01T06:30:00Z, or a duration from now, such as 90m, 8h
    /// or 7d
    #[arg(long, value_name = "TIME", required_unless_present = "policy")]
    expiry: Option<String>,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct AccountTokenArgs {
    /// Permissions, as letters: r (read), w (create tables, set properties), d (delete), l (list tables), a (add), c
    /// (create tables), u (update)
    #[arg(long, value_name = "LETTERS")]
    permissions: String,

    /// Resources, as letters: s (service), c (tables), o (entities)
    #[arg(long, value_name = "LETTERS", default_value = "sco")]
    resources: String,

    /// Expiry of the token: a time such as 2031-04-01 or 2031-04-01T06:30:00Z, or a duration from now, such as 90m, 8h
    /// or 7d
    #[arg(long, value_name = "TIME")]
    expiry: String,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, which must not contain backticks")]
struct CommonArgs {
    /// Start of the token's validity, in the format of --expiry [default: immediately]
    ///
    /// Clocks differ: a server whose clock is slow may refuse a token that starts now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,

    /// Address from which the token may be used, or a range such as 203.0.113.4-203.0.113.9
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<String>,

    /// Protocols over which the token may be used [default: both]
    #[arg(long, value_name = "PROTOCOLS", value_parser = ["https", "https,http"])]
    protocol: Option<String>,

    /// Version of the service whose rules apply to the token
    #[arg(long, value_name = "DATE", default_value = "2019-02-02")]
    signed_version: String,

    /// Account that the token is for; not needed if there is only one
    #[arg(long, value_name = "NAME")]
    account: Option<String>,

    /// Key of the account that signs the token; changing that key invalidates the token
    #[arg(long, value_name = "1|2", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    key: u8,

    /// File with account names and keys, as for the server
    ///
    /// Without it, and without keys in the environment, the token is for the development account.
    #[arg(long, env = "ROWHOUSE_ACCOUNTS", value_name = "FILE")]
    accounts: Option<PathBuf>,

    /// URL of the server, with or without the account [default: http://127.0.0.1:10002, or https://127.0.0.1:10002 with
    /// --protocol https]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

#[derive(Debug)]
struct SasToken {
    token: String,
    endpoint: String,
    table: Option<String>,
}

impl fmt::Display for SasToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, endpoint, table } = self;
        let path = table.as_deref().unwrap_or_default();
        writeln!(f, "token: {token}")?;
        writeln!(f, "URL: {endpoint}/{path}?{token}")?;
        writeln!(f, "connection string: TableEndpoint={endpoint};SharedAccessSignature={token}")
    }
}

/// An account that can sign tokens.
#[derive(Debug)]
pub struct SigningAccount {
    /// The name of the account.
    pub name: AccountName,
    /// Its keys, in the order in which `--key` numbers them.
    pub keys: Vec<AccountKey>,
}

impl SasArgs {
    /// Returns the path of the account file given with `--accounts`.
    pub fn account_file(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Table(args) => args.common.accounts.as_deref(),
            Kind::Account(args) => args.common.accounts.as_deref(),
        }
    }
}

/// Runs `rowhouse sas`: prints a token signed by one of the accounts.
pub fn run(args: SasArgs, accounts: &[SigningAccount], now: SystemTime) -> anyhow::Result<ExitCode> {
    print(&make(args, accounts, now)?)?;
    Ok(ExitCode::SUCCESS)
}

fn make(args: SasArgs, accounts: &[SigningAccount], now: SystemTime) -> anyhow::Result<SasToken> {
    let (fields, common, table) = match args.kind {
        Kind::Table(args) => {
            parse_table(&args.table)?;
            let (fields, common) = table_fields(args, now)?;
            let table = fields.table.clone().into_owned();
            (fields, common, Some(table))
        }
        Kind::Account(args) => {
            let (fields, common) = account_fields(args, now)?;
            (fields, common, None)
        }
    };
    let SigningAccount { name: account, keys } = chosen_account(accounts, common.account.as_deref())?;
    let key = keys.get(usize::from(common.key) - 1);
    let key = key.with_context(|| format!("account '{account}' has no key {}", common.key))?;
    let endpoint = endpoint_of(server_url(&common)?, account)?;
    check_letters(&fields)?;
    let has_policy = !fields.policy.is_empty();
    ensure!(has_policy || !fields.permissions.is_empty(), "--permissions is empty, so the token would allow nothing");
    ensure!(has_policy || starts_before_it_ends(&fields), "--start is not before --expiry");
    let token = fields.sign(account.as_str(), key).map_err(option_error)?;
    // A server would refuse such a token without an explanation, so refuse it here.
    verify(&token, account.as_str(), keys).map_err(option_error)?;
    Ok(SasToken { token, endpoint, table })
}

fn table_fields(args: TableTokenArgs, now: SystemTime) -> anyhow::Result<(Fields<'static>, CommonArgs)> {
    let owned = |text: Option<String>| text.map_or(Cow::Borrowed(""), Cow::Owned);
    let fields = Fields {
        table: args.table.into(),
        permissions: owned(args.permissions),
        policy: owned(args.policy),
        start_partition: owned(args.from_partition),
        start_row: owned(args.from_row),
        end_partition: owned(args.to_partition),
        end_row: owned(args.to_row),
        expiry: time("--expiry", args.expiry.as_deref(), now)?,
        ..common_fields(&args.common, now)?
    };
    Ok((fields, args.common))
}

fn account_fields(args: AccountTokenArgs, now: SystemTime) -> anyhow::Result<(Fields<'static>, CommonArgs)> {
    let fields = Fields {
        services: "t".into(),
        resources: args.resources.into(),
        permissions: args.permissions.into(),
        expiry: time("--expiry", Some(&args.expiry), now)?,
        ..common_fields(&args.common, now)?
    };
    Ok((fields, args.common))
}

fn common_fields(args: &CommonArgs, now: SystemTime) -> anyhow::Result<Fields<'static>> {
    let owned = |text: &Option<String>| text.clone().map_or(Cow::Borrowed(""), Cow::Owned);
    Ok(Fields {
        version: args.signed_version.clone().into(),
        start: time("--start", args.start.as_deref(), now)?,
        sources: owned(&args.ip),
        protocols: owned(&args.protocol),
        ..Fields::default()
    })
}

fn time(flag: &str, text: Option<&str>, now: SystemTime) -> anyhow::Result<Cow<'static, str>> {
    let Some(text) = text else { return Ok(Cow::Borrowed("")) };
    if parse_time(text).is_some() {
        return Ok(Cow::Owned(text.to_owned()));
    }
    let later = from_now(text, now).with_context(|| {
        format!("{flag} must be a time such as 2031-04-01 or 2031-04-01T06:30:00Z, or a duration such as 90m, 8h or 7d")
    })?;
    let mut out = Vec::with_capacity(20);
    DateTime::from_system_time(later).write_whole_seconds_to(&mut out);
    Ok(Cow::Owned(String::from_utf8(out).context("formatting the time")?))
}

/// With a minus sign, the time is in the past.
fn from_now(text: &str, now: SystemTime) -> Option<SystemTime> {
    let (is_past, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let distance = parse_duration(text)?;
    if is_past { now.checked_sub(distance) } else { now.checked_add(distance) }
}

fn starts_before_it_ends(fields: &Fields<'_>) -> bool {
    fields.start.is_empty() || parse_time(&fields.start) < parse_time(&fields.expiry)
}

fn chosen_account<'a>(accounts: &'a [SigningAccount], name: Option<&str>) -> anyhow::Result<&'a SigningAccount> {
    let mut all = accounts.iter().filter(|account| name.is_none_or(|name| account.name.as_str() == name));
    match (all.next(), all.next(), name) {
        (Some(found), None, _) => Ok(found),
        (None, _, Some(name)) => {
            bail!("there is no account '{name}': pass --accounts FILE or set ROWHOUSE_ACCOUNT_KEYS")
        }
        _ => bail!("there is more than one account: choose one with --account NAME"),
    }
}

/// Returns the URL of the server, without a slash at its end.
fn server_url(common: &CommonArgs) -> anyhow::Result<&str> {
    let is_https_only = common.protocol.as_deref() == Some("https");
    let url = match &common.endpoint {
        Some(url) => url.trim_end_matches('/'),
        None if is_https_only => "https://127.0.0.1:10002",
        None => "http://127.0.0.1:10002",
    };
    ensure!(
        !(is_https_only && url.starts_with("http://")),
        "--endpoint '{url}' uses HTTP, but with --protocol https the token is valid only over HTTPS: begin the URL with https://"
    );
    Ok(url)
}

/// Returns the endpoint of an account on a server. The URL is in host style if the host begins with the account, and
/// otherwise in path style.
pub fn endpoint_of(url: &str, account: &AccountName) -> anyhow::Result<String> {
    let url = url.trim_end_matches('/');
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = host.filter(|host| !host.is_empty() && !host.contains(['?', '#', ';', ' ']));
    let host = host.with_context(|| {
        format!(
            "--endpoint '{url}' is not a valid URL: begin it with http:// or https://, as in http://127.0.0.1:10002"
        )
    })?;
    let has_account = host.starts_with(&format!("{account}.")) || host.ends_with(&format!("/{account}"));
    Ok(if has_account { url.to_owned() } else { format!("{url}/{account}") })
}

/// The signature would be checked before the letters, without a message that names the letter.
fn check_letters(fields: &Fields<'_>) -> anyhow::Result<()> {
    let is_account_sas = !fields.services.is_empty();
    let parse = if is_account_sas { Permissions::parse_account } else { Permissions::parse_table };
    if let Some(letter) = fields.permissions.chars().find(|letter| parse(&letter.to_string()).is_none()) {
        let permissions =
            if is_account_sas { "an account are r, w, d, l, a, c and u" } else { "a table are r, a, u and d" };
        bail!("--permissions contains {letter:?}: the letters for {permissions}");
    }
    if let Some(letter) = fields.resources.chars().find(|letter| !"sco".contains(*letter)) {
        bail!("--resources contains {letter:?}: the letters are s (service), c (tables) and o (entities)");
    }
    Ok(())
}

/// The message names the option that contained the field.
fn option_error(error: SasError) -> anyhow::Error {
    let name = match error {
        SasError::Field(name) => name,
        SasError::ControlCharacter(name) => return control_character(name),
        error => return error.into(),
    };
    anyhow!(match name {
        "sip" =>
            "--ip must be an address or a range such as 203.0.113.4-203.0.113.9, and needs signed version 2015-04-05 or later",
        "spr" => "--protocol needs signed version 2015-04-05 or later",
        "sv" =>
            "--signed-version must be a service version: for a table SAS, 2012-02-12 or later; for an account SAS, \
             2015-04-05 or later",
        other => return SasError::Field(other).into(),
    })
}

/// A control character could act as a field separator in the string to sign.
fn control_character(field: &str) -> anyhow::Error {
    let option = match field {
        "si" => "--policy",
        "spk" => "--from-partition",
        "srk" => "--from-row",
        "epk" => "--to-partition",
        "erk" => "--to-row",
        "sp" => "--permissions",
        "srt" => "--resources",
        "sip" => "--ip",
        "spr" => "--protocol",
        "sv" => "--signed-version",
        other => other,
    };
    anyhow!(
        "{option} contains a control character, such as a line break or a tab: neither keys nor policies can contain such characters; remove it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use model::{Scope, StoredAccessPolicies};
    use std::time::Duration;
    use wire::sas::SasContext;

    const KEY1: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
    const KEY2: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl9gYWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+fw==";

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sas: SasArgs,
    }

    /// Returns the token that a command line produces on March 14, 2031.
    fn made(line: &str) -> anyhow::Result<SasToken> {
        let keys = [KEY1, KEY2].map(|key| AccountKey::parse(key).unwrap()).to_vec();
        let account = SigningAccount { name: AccountName::new("orchardacct").unwrap(), keys };
        let args = Line::try_parse_from(std::iter::once("sas").chain(line.split(' ')))?;
        make(args.sas, &[account], now())
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(536_460)
    }

    #[test]
    fn tokens_of_the_official_clients() {
        // S1 and S6 of 08 §13.
        let table = made("table Harvest --permissions raud --expiry 2031-04-01T06:30:00Z").unwrap().to_string();
        let token = "se=2031-04-01T06%3A30%3A00Z&sp=raud&sv=2019-02-02&tn=Harvest&sig=579VRfdAmuNz3Nitf%2B8SjqrvRTW2ZiiMlE68B0EHUxQ%3D";
        assert_eq!(
            table,
            format!(
                "token: {token}\nURL: http://127.0.0.1:10002/orchardacct/Harvest?{token}\nconnection string: TableEndpoint=http://127.0.0.1:10002/orchardacct;SharedAccessSignature={token}\n"
            )
        );
        let account = made("account --permissions rau --resources o --expiry 2031-04-01T06:30:00Z").unwrap();
        assert_eq!(
            account.token,
            "se=2031-04-01T06%3A30%3A00Z&sp=rau&sv=2019-02-02&ss=t&srt=o&sig=0%2FiJDSGWsvCqfyt%2FkdBRhXsInlDLvRU354TfafWWbdo%3D"
        );
    }

    #[test]
    fn every_option_reaches_the_token() {
        let made = made(
            "table Harvest --permissions ra --start -15m --expiry 8h --from-partition a --from-row b --to-partition c --to-row d --ip 10.0.0.1 --protocol https --key 2 --endpoint https://orchardacct.table.example.net/",
        )
        .unwrap();
        for part in
            ["st=2031-03-14T", "se=2031-03-14T", "spk=a", "srk=b", "epk=c", "erk=d", "sip=10.0.0.1", "spr=https"]
        {
            assert!(made.token.contains(part), "{part} in {}", made.token);
        }
        assert_eq!(made.endpoint, "https://orchardacct.table.example.net");
        let local = self::made("account --permissions r --expiry 1h --protocol https").unwrap();
        assert_eq!(local.endpoint, "https://127.0.0.1:10002/orchardacct");
        let keys = [AccountKey::parse(KEY2).unwrap()];
        let used =
            SasContext { now: DateTime::from_system_time(now()), source: "10.0.0.1".parse().unwrap(), is_https: true };
        let scope = verify(&made.token, "orchardacct", &keys).unwrap().scope(&StoredAccessPolicies::default(), used);
        assert!(matches!(scope, Ok(Scope::Table { .. })), "{scope:?}");
        let by_policy = self::made("table Harvest --policy mobile").unwrap();
        assert!(by_policy.token.starts_with("sv=2019-02-02&si=mobile&tn=Harvest&sig="), "{}", by_policy.token);
    }

    #[test]
    fn what_cannot_work_is_refused_with_what_to_do() {
        for (line, hint) in [
            ("table Harvest --permissions r", "--expiry"),
            ("table Harvest --expiry 1h", "--permissions"),
            ("table Harvest --expiry 1h --permissions=", "--permissions is empty"),
            ("table x --permissions r --expiry 1h", "table name"),
            (
                "table Harvest --permissions rl --expiry 1h",
                "--permissions contains 'l': the letters for a table are r, a, u and d",
            ),
            ("table Harvest --permissions r --expiry soon", "90m"),
            ("table Harvest --permissions r --expiry 2031-04-01T06:30", "90m"),
            ("table Harvest --permissions r --expiry 1h --start 2h", "--start"),
            ("table Harvest --permissions r --expiry 1h --from-row a", "--from-partition"),
            ("table Harvest --permissions r --expiry 1h --ip nowhere", "--ip"),
            ("table Harvest --permissions r --expiry 1h --protocol http", "https"),
            ("table Harvest --permissions r --expiry 1h --signed-version 2009-09-19", "--signed-version"),
            ("table Harvest --permissions r --expiry 1h --account other", "'other'"),
            ("table Harvest --permissions r --expiry 1h --key 3", "1..=2"),
            ("table Harvest --permissions r --expiry 1h --endpoint 127.0.0.1:10002", "begin it with http://"),
            (
                "table Harvest --permissions r --expiry 1h --from-partition a\nb",
                "--from-partition contains a control character",
            ),
            (
                "table Harvest --permissions r --expiry 1h --from-partition a --from-row b\tc",
                "--from-row contains a control",
            ),
            ("table Harvest --permissions r --expiry 1h --to-partition a\u{9b}b", "--to-partition contains a control"),
            ("table Harvest --policy a\rb", "--policy contains a control character"),
            (
                "account --permissions rz --expiry 1h",
                "--permissions contains 'z': the letters for an account are r, w, d, l, a, c and u",
            ),
            ("account --permissions r --resources sx --expiry 1h", "--resources contains 'x'"),
            (
                "table Harvest --permissions r --expiry 1h --protocol https --endpoint http://127.0.0.1:10002",
                "begin the URL with https://",
            ),
        ] {
            let message = format!("{:#}", made(line).unwrap_err());
            assert!(message.contains(hint), "{line}: {message}");
            assert!(!message.contains(KEY1), "{message}");
        }
    }
}

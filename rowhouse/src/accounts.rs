//! `rowhouse accounts`: creates accounts and keys for an account file.
//!
//! `server::account_file` edits the contents of the file. A key is printed only by `connection-string`, and by `new` if
//! no file is given.

use crate::file;
use anyhow::{Context, ensure};
use clap::{Args, Subcommand, ValueEnum};
use model::AccountName;
use platform::files::copy_access;
use server::account_file::{self, KeySlot};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tools::parse_account;
use tools::sas::endpoint_of;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rowhouse accounts new orchard
      print a section for an account file, with two new keys
  rowhouse accounts new orchard --file accounts.toml
      add the account to the file, which is created if missing
  rowhouse accounts list --file accounts.toml
      list the names of the accounts, never their keys
  rowhouse accounts connection-string orchard --file accounts.toml --endpoint https://tables.example.org
      print the connection string of the account, with its key, for a client
  rowhouse accounts rotate orchard --file accounts.toml
      replace key2; then switch the clients to it
  rowhouse accounts rotate orchard --file accounts.toml --key key1
      replace key1 once no client uses it anymore";

/// The options of `accounts`.
#[derive(Debug, Args)]
pub struct AccountsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create an account with two new keys
    ///
    /// Without --file, the command prints the section for an account file. With --file, it appends the section to that
    /// file and leaves everything else in it unchanged. A new file is readable only by its owner.
    #[command(after_long_help = EXAMPLES)]
    New(NewArgs),

    /// Replace one of the two keys of an account
    ///
    /// The other key stays valid, so clients that use it are not affected. As soon as the server has read the file, it
    /// refuses requests that use the replaced key, and every shared access signature signed with it. To replace both
    /// keys without a failed request: rotate key2, switch the clients to the new key2, then rotate key1.
    #[command(after_long_help = EXAMPLES)]
    Rotate(RotateArgs),

    /// List the accounts in a file, without their keys
    #[command(after_long_help = EXAMPLES)]
    List(ListArgs),

    /// Print the connection string of an account, with its key
    ///
    /// Client libraries and the commands of this program accept it. It allows everything in the account: keep it
    /// secret. No server needs to run.
    #[command(after_long_help = EXAMPLES)]
    ConnectionString(ConnectionStringArgs),
}

#[derive(Debug, Args)]
struct NewArgs {
    /// Name of the account: 3 to 24 lowercase letters and digits
    name: String,

    /// Account file to add the account to, as for rowhouse serve --accounts
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RotateArgs {
    /// Name of the account
    name: String,

    /// Account file to change
    #[arg(long, value_name = "FILE")]
    file: PathBuf,

    /// Key to replace; key2 is added if the account has only one key
    #[arg(long, value_enum, default_value_t = KeyArg::Key2)]
    key: KeyArg,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Account file to read
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
struct ConnectionStringArgs {
    /// Name of the account
    name: String,

    /// Account file to read
    #[arg(long, value_name = "FILE")]
    file: PathBuf,

    /// URL of the server as clients reach it, with or without the account
    #[arg(long, value_name = "URL", default_value = DEFAULT_ENDPOINT)]
    endpoint: String,

    /// Key to print
    #[arg(long, value_enum, default_value_t = KeyArg::Key1)]
    key: KeyArg,
}

const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:10002";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyArg {
    /// The first key; user delegation keys derived from it become invalid with it
    Key1,
    /// The second key, which an account may lack
    Key2,
}

pub(crate) fn run(args: AccountsArgs) -> anyhow::Result<String> {
    match args.action {
        Action::New(args) => new(&args),
        Action::Rotate(args) => rotate(&args),
        Action::List(args) => list(&args),
        Action::ConnectionString(args) => connection_string(&args),
    }
}

/// Returns the command that prints the connection string of an account of a file, for the given URL of the server.
pub(crate) fn connection_string_command(name: &AccountName, file: &Path, endpoint: &str) -> String {
    let file = file.display().to_string();
    let file = if file.contains(char::is_whitespace) { format!("\"{file}\"") } else { file };
    let command = format!("rowhouse accounts connection-string {name} --file {file}");
    if endpoint == DEFAULT_ENDPOINT { command } else { format!("{command} --endpoint {endpoint}") }
}

fn new(args: &NewArgs) -> anyhow::Result<String> {
    let name = parse_account(&args.name)?;
    let (key1, key2) = (random_key()?, random_key()?);
    let Some(file) = &args.file else { return Ok(account_file::section(&name, [&key1, &key2])) };
    let text = read(file)?;
    let changed = account_file::add(text.as_deref().unwrap_or_default(), &name, [&key1, &key2]);
    replace(file, &changed.with_context(|| format!("changing {}", file.display()))?, text.is_some())?;
    Ok(format!("added account '{name}' to {}\n{RELOAD_HINT}\n", file.display()))
}

fn rotate(args: &RotateArgs) -> anyhow::Result<String> {
    let (name, file) = (parse_account(&args.name)?, &args.file);
    let (slot, other) = match args.key {
        KeyArg::Key1 => (KeySlot::Key1, KeySlot::Key2),
        KeyArg::Key2 => (KeySlot::Key2, KeySlot::Key1),
    };
    let text = read_existing(file)?;
    let changed = account_file::replace_key(&text, &name, slot, &random_key()?);
    replace(file, &changed.with_context(|| format!("changing {}", file.display()))?, true)?;
    Ok(format!("'{name}' has a new {slot} in {}; its {other} is unchanged\n{RELOAD_HINT}\n", file.display()))
}

fn list(args: &ListArgs) -> anyhow::Result<String> {
    let file = &args.file;
    let text = read_existing(file)?;
    let accounts = account_file::list(&text).with_context(|| format!("reading {}", file.display()))?;
    let line = |(name, keys): (String, usize)| format!("{name}  {keys} {}\n", if keys == 1 { "key" } else { "keys" });
    Ok(accounts.into_iter().map(line).collect())
}

fn connection_string(args: &ConnectionStringArgs) -> anyhow::Result<String> {
    let (name, file) = (parse_account(&args.name)?, &args.file);
    let slot = match args.key {
        KeyArg::Key1 => KeySlot::Key1,
        KeyArg::Key2 => KeySlot::Key2,
    };
    let endpoint = endpoint_of(&args.endpoint, &name)?;
    let key = account_file::key(&read_existing(file)?, &name, slot);
    let key = key.with_context(|| format!("reading {}", file.display()))?;
    Ok(server::connection_string(name.as_str(), &key, &endpoint) + "\n")
}

const RELOAD_HINT: &str = "a running server that uses this file with --accounts reloads it within a second, or immediately on SIGHUP; \
     a server that has a copy of it, such as a systemd credential or a single file mounted into a container, uses the \
     old content until it is restarted";

fn random_key() -> anyhow::Result<String> {
    server::random_key().context("the system's random number generator failed")
}

/// Returns the contents of a file, or `None` if it does not exist.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => text.map(Some).with_context(|| format!("reading {}", path.display())),
    }
}

fn read_existing(path: &Path) -> anyhow::Result<String> {
    read(path)?.with_context(|| format!("the file {} does not exist", path.display()))
}

/// Replaces the file as a whole. An existing file keeps its owner and its permissions.
fn replace(path: &Path, text: &str, exists: bool) -> anyhow::Result<()> {
    // A symbolic link is kept, and the file it points to is replaced.
    let path = if exists {
        path.canonicalize().with_context(|| format!("writing {}", path.display()))?
    } else {
        path.to_owned()
    };
    let keep_access = |file: &File| {
        if exists { copy_access(&path, file).context("keeping its owner and its permissions") } else { Ok(()) }
    };
    let check = || {
        ensure!(exists || !path.exists(), "another process has just created it");
        Ok(())
    };
    file::replace(&path, text, keep_access, check)
}

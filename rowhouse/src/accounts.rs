//! `rowhouse accounts`: makes accounts and keys for a file of accounts.
//!
//! What a change does to the text of the file is decided in `server::account_file`. A key is shown only if no file is named.

use anyhow::{Context, ensure};
use clap::{Args, Subcommand, ValueEnum};
use model::AccountName;
use platform::files::{copy_access, private_file, sync_folder};
use server::account_file::{self, KeySlot};
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Examples, for the end of the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rowhouse accounts new orchard
      print a section for the file of accounts, with two new keys
  rowhouse accounts new orchard --file accounts.toml
      add the account to the file, which is created if it is missing
  rowhouse accounts list --file accounts.toml
      the names of the accounts, and never a key
  rowhouse accounts rotate orchard --file accounts.toml
      replace key2; then move the clients to it
  rowhouse accounts rotate orchard --file accounts.toml --key key1
      replace key1, once no client uses it any more";

/// The options of accounts.
#[derive(Debug, Args)]
pub struct AccountsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make an account with two new keys
    ///
    /// Without --file it prints the section for the file of accounts. With --file it adds the section at the end of that file, and
    /// everything else in the file stays as it is. A new file is readable by its owner alone.
    #[command(after_long_help = EXAMPLES)]
    New(NewArgs),

    /// Replace one of the two keys of an account
    ///
    /// The other key stays valid, so clients that use it notice nothing. A request with the replaced key is refused as soon as the
    /// server has read the file, and so is every shared access signature made with it. To replace both keys without a failed
    /// request: rotate key2, move the clients to the new key2, then rotate key1.
    #[command(after_long_help = EXAMPLES)]
    Rotate(RotateArgs),

    /// List the accounts of a file, without their keys
    #[command(after_long_help = EXAMPLES)]
    List(ListArgs),
}

#[derive(Debug, Args)]
struct NewArgs {
    /// Name of the account: 3 to 24 lower-case letters and digits
    name: String,

    /// File of accounts to add it to, as for rowhouse serve --accounts
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RotateArgs {
    /// Name of the account
    name: String,

    /// File of accounts to change
    #[arg(long, value_name = "FILE")]
    file: PathBuf,

    /// The key to replace
    #[arg(long, value_enum, default_value_t = KeyArg::Key2)]
    key: KeyArg,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// File of accounts to read
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// One of the two keys of an account.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyArg {
    /// The first key; user delegation keys that were made of it end with it
    Key1,
    /// The second key; it is added if the account has none
    Key2,
}

/// Makes the change, and returns what to print.
pub(crate) fn run(args: AccountsArgs) -> anyhow::Result<String> {
    match args.action {
        Action::New(args) => new(&args),
        Action::Rotate(args) => rotate(&args),
        Action::List(args) => list(&args),
    }
}

fn new(args: &NewArgs) -> anyhow::Result<String> {
    let name = account_name(&args.name)?;
    let (key1, key2) = (random_key()?, random_key()?);
    let Some(file) = &args.file else { return Ok(account_file::section(&name, [&key1, &key2])) };
    let text = read(file)?;
    let changed = account_file::add(text.as_deref().unwrap_or_default(), &name, [&key1, &key2]);
    replace(file, &changed.with_context(|| format!("changing {}", file.display()))?, text.is_some())?;
    Ok(format!("added the account '{name}' to {}\n{NEXT}\n", file.display()))
}

fn rotate(args: &RotateArgs) -> anyhow::Result<String> {
    let (name, file) = (account_name(&args.name)?, &args.file);
    let (slot, other) = match args.key {
        KeyArg::Key1 => (KeySlot::Key1, KeySlot::Key2),
        KeyArg::Key2 => (KeySlot::Key2, KeySlot::Key1),
    };
    let text = read(file)?.with_context(|| format!("there is no file {}", file.display()))?;
    let changed = account_file::replace_key(&text, &name, slot, &random_key()?);
    replace(file, &changed.with_context(|| format!("changing {}", file.display()))?, true)?;
    Ok(format!("'{name}' has a new {slot} in {}; its {other} is as it was\n{NEXT}\n", file.display()))
}

fn list(args: &ListArgs) -> anyhow::Result<String> {
    let file = &args.file;
    let text = read(file)?.with_context(|| format!("there is no file {}", file.display()))?;
    let accounts = account_file::list(&text).with_context(|| format!("reading {}", file.display()))?;
    let line = |(name, keys): (String, usize)| format!("{name}  {keys} {}\n", if keys == 1 { "key" } else { "keys" });
    Ok(accounts.into_iter().map(line).collect())
}

/// What follows a change.
const NEXT: &str = "a running server with this file in --accounts reads it within a second, or at once on SIGHUP";

fn account_name(text: &str) -> anyhow::Result<AccountName> {
    AccountName::new(text)
        .with_context(|| format!("'{text}' is not the name of an account: give 3 to 24 lower-case letters and digits"))
}

fn random_key() -> anyhow::Result<String> {
    server::random_key().context("the system has no random numbers")
}

/// The text of a file; `None` if there is none.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => text.map(Some).with_context(|| format!("reading {}", path.display())),
    }
}

/// Replaces a file as a whole, so that a server never reads half of it. A file that is there keeps its owner and its permissions.
fn replace(path: &Path, text: &str, exists: bool) -> anyhow::Result<()> {
    let what = || format!("writing {}", path.display());
    // A link stays, and the file that it names is replaced.
    let path = if exists { path.canonicalize().with_context(what)? } else { path.to_owned() };
    let mut name = OsString::from(path.file_name().with_context(what)?);
    name.push(".new");
    let new = path.with_file_name(name);
    let written = write_new(&new, text, exists.then_some(&*path)).and_then(|()| {
        if !exists {
            // Another process may have made it in the meantime.
            ensure!(!path.exists(), "it was created just now");
        }
        Ok(std::fs::rename(&new, &path)?)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.with_context(what)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_folder(folder).with_context(what)
}

fn write_new(path: &Path, text: &str, replaced: Option<&Path>) -> anyhow::Result<()> {
    // Without this, what another process has left under this name would keep its owner and its permissions.
    let _ = std::fs::remove_file(path);
    let mut file = private_file().write(true).create_new(true).open(path)?;
    if let Some(replaced) = replaced {
        copy_access(replaced, &file).context("keeping its owner and its permissions")?;
    }
    file.write_all(text.as_bytes())?;
    Ok(file.sync_all()?)
}

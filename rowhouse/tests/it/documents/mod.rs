//! Checks what documents state about the program. The help, the reference of options, and the command lines and
//! variables in documents, the image, units and manifests are compared with the definition of the options.

pub(crate) mod command_lines;
mod help;
mod image;
mod installing;
mod manifests;
mod manual_pages;
mod monitoring;
mod reference;
#[path = "../../../../xtask/tests/repository/files.rs"]
mod repository;
mod unit_file;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use repository::{files, read, root};
use rowhouse::cli::{Cli, Command, ServeArgs};
use rowhouse::config::{AccountKeys, Config};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value};
use std::collections::BTreeSet;
use std::process;

/// Variables that the server reads but that do not correspond to an option.
const VARIABLES_WITHOUT_OPTION: [&str; 11] = [
    "ROWHOUSE_ACCOUNT_KEYS",
    "AZURITE_ACCOUNTS",
    "ROWHOUSE_FROM_KEY",
    "ROWHOUSE_TO_KEY",
    "ROWHOUSE_INTO_KEY",
    "ROWHOUSE_KEY",
    "ROWHOUSE_CONNECTION_STRING",
    "AZURE_STORAGE_CONNECTION_STRING",
    "PGPASSWORD",
    "SSL_CERT_FILE",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// If the program is missing, prints a note that part of the test is skipped.
fn has(program: &str) -> bool {
    let found = process::Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED in part, because {program} is not installed here");
    }
    found
}

/// Returns the definition of the options, without the environment of the test.
fn definition() -> clap::Command {
    fn without_variables(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.env(None::<&str>)).mut_subcommands(without_variables)
    }
    without_variables(Cli::command())
}

fn commands() -> Vec<(String, clap::Command)> {
    fn add(words: &str, command: &clap::Command, all: &mut Vec<(String, clap::Command)>) {
        all.push((words.to_owned(), command.clone()));
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            add(&format!("{words} {}", below.get_name()), below, all);
        }
    }
    let mut all = Vec::new();
    add("rowhouse", &Cli::command(), &mut all);
    all
}

fn variables() -> BTreeSet<String> {
    let of_options = commands().into_iter().flat_map(|(_, command)| {
        command.get_arguments().filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned())).collect::<Vec<_>>()
    });
    of_options.chain(VARIABLES_WITHOUT_OPTION.map(str::to_owned)).collect()
}

/// Parses the words of a command line after `rowhouse`, with variables, as the program does. Returns `None` if the
/// program would show help.
fn parse(words: &[String], environment: &[(String, String)]) -> Result<Option<Command>, String> {
    let command = words.first().and_then(|name| Cli::command().find_subcommand(name).cloned());
    let mut line = vec!["rowhouse".to_owned()];
    line.extend(words.iter().cloned());
    for (name, value) in environment {
        let twin =
            command.iter().flat_map(clap::Command::get_arguments).find(|arg| arg.get_env() == Some(name.as_ref()));
        match twin {
            // An option on the command line overrides the variable.
            Some(arg) if !words.iter().any(|word| word.starts_with(&format!("--{}", arg.get_long().unwrap()))) => {
                line.push(format!("--{}={value}", arg.get_long().unwrap()));
            }
            Some(_) => {}
            None if variables().contains(name) => {}
            None => return Err(format!("the program reads no variable {name}")),
        }
    }
    let matches = definition().try_get_matches_from(line).and_then(|matches| Cli::from_arg_matches(&matches));
    match matches {
        Ok(cli) => Ok(Some(cli.command)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Like [`parse`], for a command line that starts a server: its options must also be consistent. Files are replaced by
/// valid files.
fn accept_server(words: &[String], environment: &[(String, String)]) -> Result<Config, String> {
    let Some(Command::Serve(mut args)) = parse(words, environment)? else { return Err("not a server".to_owned()) };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        Some(path)
    };
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let ServeArgs { accounts, tls_cert, tls_key, store_password_file, .. } = args.as_mut();
    let secret = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [7; 64]);
    let of_own = format!("[[account]]\nname = \"orchard\"\nkey1 = \"{secret}\"\n");
    *accounts = accounts.take().and_then(|_| file("accounts", &of_own));
    *tls_cert = tls_cert.take().and_then(|_| file("cert", &certificate.cert.pem()));
    *tls_key = tls_key.take().and_then(|_| file("key", &certificate.signing_key.serialize_pem()));
    *store_password_file = store_password_file.take().and_then(|_| file("password", "secret\n"));
    let keys =
        environment.iter().find(|(name, _)| name == "ROWHOUSE_ACCOUNT_KEYS").map(|_| format!("orchard:{secret}"));
    Config::new(*args, keys.as_deref().map(AccountKeys::from_server_variable)).map_err(|error| format!("{error:#}"))
}

fn yaml(text: &str) -> Vec<Value> {
    Yaml::load_from_str(text).unwrap().iter().map(value).collect()
}

fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        Yaml::Value(Scalar::Integer(value)) => Value::Number((*value).into()),
        Yaml::Value(Scalar::FloatingPoint(value)) => Value::Number(Number::from_f64(value.into_inner()).unwrap()),
        Yaml::Value(Scalar::String(value)) => Value::String(value.to_string()),
        Yaml::Sequence(values) => values.iter().map(value).collect(),
        Yaml::Mapping(members) => {
            let members = members.iter().map(|(name, member)| (name.as_str().unwrap().to_owned(), value(member)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => panic!("unexpected in these files: {other:?}"),
    }
}

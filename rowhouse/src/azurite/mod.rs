//! `rowhouse azurite`: the server as a drop-in replacement for the emulator.
//!
//! [`translation`] translates the emulator's options, and [`programs`] runs the emulator's programs for blobs and
//! queues. This file prints the lines that tools wait for.
//!
//! Invariants:
//!
//! 1. The line that announces a service is printed once the service listens, in the emulator's order: blobs, queues,
//!    tables.
//! 2. The programs never outlive the server, however it exits (see [`programs`]).
//!
//! This module must not know how a request is served.

mod programs;
mod translation;

use crate::cli::{AzuriteArgs, ServeArgs};
use crate::config::{self, AccountKeys, Config, Storage};
use crate::serve::{self, Ready, ServerHost, print_and_flush};
use anyhow::{Context, anyhow, ensure};
use clap::Parser;
use programs::{EndedProgram, Program, Programs};
use server::BearerTokens;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tools::report_error;
use tracing::{info, warn};
use translation::Translation;

const ACCOUNTS_VARIABLE: &str = "AZURITE_ACCOUNTS";
/// The file in which the emulator keeps tables, relative to its location.
const EMULATOR_TABLES: &str = "__azurite_db_table__.json";

#[derive(Parser)]
struct Environment {
    #[command(flatten)]
    serve: ServeArgs,
}

/// Runs the server and the programs until SIGTERM or Ctrl-C, or until one of the programs exits.
pub(crate) fn run(args: AzuriteArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::parse_from(["rowhouse azurite"]);
    let Translation { serve, blob, queue, location, log_file, accepts_unverified_tokens, mut remarks } =
        Translation::new(args, environment.serve)?;
    let of_emulator = std::env::var(ACCOUNTS_VARIABLE).ok().filter(|text| !text.is_empty());
    let accounts = of_emulator.clone().or_else(config::account_keys);
    let keys = match (&of_emulator, &accounts) {
        (Some(text), _) => Some(AccountKeys { variable: ACCOUNTS_VARIABLE, text }),
        (None, text) => text.as_deref().map(AccountKeys::from_server_variable),
    };
    let asked = serve.listen.clone().unwrap_or_default();
    let mut config = Config::new(serve, keys)?.with_password();
    config.process.log_file = log_file;
    config.server.names_emulator_version = true;
    if accepts_unverified_tokens {
        ensure!(
            config.access.tokens.is_none(),
            "--oauth basic accepts tokens from any issuer and cannot be combined with [oauth] in the file: remove one of them"
        );
        config.access.tokens = Some(BearerTokens::Unverified);
    }
    for folder in [location.as_deref(), config.process.log_file.as_deref().and_then(Path::parent)].into_iter().flatten()
    {
        std::fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))?;
    }
    let has_public_key = config.access.accounts.have_well_known_key();
    remarks.extend(network_warning(&config, has_public_key));
    if let Storage::Folder { path, .. } = &config.storage {
        remarks.extend(leftover_tables_warning(location.as_deref().unwrap_or(Path::new(".")), path));
    }

    let (found, missing): (Vec<_>, Vec<_>) =
        [Program::blob(blob), Program::queue(queue)].into_iter().partition(Program::is_installed);
    remarks.extend(missing_programs_warning(&missing));
    let scheme = if config.access.tls.is_some() { "https" } else { "http" };
    let mut emulator = EmulatorHost {
        asked: format!("{scheme}://{asked}"),
        remarks,
        programs: Programs::new(found, scheme, accounts),
    };
    let ran = serve::run(config, &mut emulator);
    exit_code(ran, emulator.programs.ended())
}

/// Returns the exit code of this process: the exit code of a program that exited unexpectedly, if there is one.
fn exit_code(ran: anyhow::Result<()>, ended: Option<EndedProgram>) -> anyhow::Result<ExitCode> {
    match (ran, ended) {
        (Err(error), Some(EndedProgram { code, .. })) => {
            report_error(&error);
            Ok(ExitCode::from(code))
        }
        (Err(error), None) => Err(error),
        (Ok(()), Some(EndedProgram { service, code })) => {
            report_error(&anyhow!("the emulator's program for {service} has exited, so this server stops as well"));
            Ok(ExitCode::from(code))
        }
        (Ok(()), None) => {
            print_and_flush("Azurite Table service successfully closed\n")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

struct EmulatorHost {
    asked: String,
    remarks: Vec<Remark>,
    programs: Programs,
}

#[derive(Debug, PartialEq, Eq)]
enum Remark {
    Warning(String),
    Information(String),
}

impl ServerHost for EmulatorHost {
    fn listen_option(&self) -> &'static str {
        "--tablePort 0"
    }

    async fn announce(&mut self, ready: &Ready) -> anyhow::Result<()> {
        for remark in self.remarks.drain(..) {
            match remark {
                Remark::Warning(text) => warn!("{text}"),
                Remark::Information(text) => info!("{text}"),
            }
        }
        self.programs.start().await?;
        let mut lines = format!(
            "Azurite Table service is starting at {}\nAzurite Table service is successfully listening at {}\n",
            self.asked, ready.endpoint
        );
        for (what, address) in [
            ("explorer: ", ready.explorer.clone()),
            ("admin on http://", ready.admin.map(|address| address.to_string())),
        ] {
            if let Some(address) = address {
                lines.extend([what, &address, "\n"]);
            }
        }
        print_and_flush(&lines)
    }

    async fn ended(&mut self) {
        self.programs.first_end().await;
    }

    fn stopping(&mut self) {
        self.programs.stop();
        // The reader may have closed the output.
        let _printed = print_and_flush("Azurite Table service is closing...\n");
    }

    async fn stopped(&mut self) {
        self.programs.stop();
        self.programs.all_ended().await;
    }
}

/// Warns about what users of other machines can do with this server.
fn network_warning(config: &Config, has_public_key: bool) -> Option<Remark> {
    let listen = config.exposure.listen;
    let is_open = !listen.ip().is_loopback() && (has_public_key || config.access.tokens.is_some());
    is_open.then(|| {
        Remark::Warning(format!(
            "anyone who can reach {listen} can read and change everything, as with the emulator: set AZURITE_ACCOUNTS to your own \
             accounts and omit --oauth, or listen on 127.0.0.1"
        ))
    })
}

/// On the first start in a folder, warns that the emulator's tables in that folder are not read.
fn leftover_tables_warning(location: &Path, data: &Path) -> Option<Remark> {
    let left = location.join(EMULATOR_TABLES);
    (left.exists() && !data.exists()).then(|| {
        Remark::Warning(format!(
            "the emulator's tables in {} are not read. To copy them, start `azurite-table --tablePort 10012 --location {}` and run \
             `rowhouse copy --from http://127.0.0.1:10012/devstoreaccount1 --to http://127.0.0.1:10002/devstoreaccount1`",
            left.display(),
            location.display()
        ))
    })
}

fn data_folder(location: &Path) -> PathBuf {
    location.join("rowhouse-data")
}

fn missing_programs_warning(missing: &[Program]) -> Option<Remark> {
    let services: Vec<_> = missing.iter().map(Program::service).collect();
    let programs: Vec<_> = missing.iter().map(Program::name).collect();
    (!missing.is_empty()).then(|| {
        Remark::Warning(format!(
            "no {} are served, because {} cannot be found: install the emulator (npm install --global azurite, or --save-dev in a \
             project) and restart",
            services.join(" or "),
            programs.join(" and ")
        ))
    })
}

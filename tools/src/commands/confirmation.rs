//! Asks on a terminal before a command deletes data on another machine: the service may have been selected by a
//! variable that was set for something else. Scripts are not asked.

use super::connection::ConnectionArgs;
use crate::terminal::ask;
use anyhow::ensure;
use clap::Args;
use client::TableService;

#[derive(Debug, Args)]
pub(super) struct ConfirmationArgs {
    /// Do not ask for confirmation, which a terminal requires if the service is on another machine
    #[arg(long, short)]
    yes: bool,
}

impl ConfirmationArgs {
    /// `effect` completes the sentence "This …".
    pub(super) fn confirm(
        &self,
        connection: &ConnectionArgs,
        service: &TableService,
        effect: &str,
    ) -> anyhow::Result<()> {
        self.confirm_by(|question| ask(question), connection, service, effect)
    }

    /// `ask` returns `None` if no one can answer.
    fn confirm_by(
        &self,
        ask: impl FnOnce(&str) -> anyhow::Result<Option<bool>>,
        connection: &ConnectionArgs,
        service: &TableService,
        effect: &str,
    ) -> anyhow::Result<()> {
        let endpoint = service.endpoint();
        if self.yes || endpoint.is_loopback() {
            return Ok(());
        }
        let (account, origin) = (endpoint.account(), connection.origin()?);
        let question = format!("This {effect}, in the account '{account}' at {endpoint} (from {origin}). Continue?");
        ensure!(ask(&question)? != Some(false), "not confirmed, so nothing was changed; --yes skips the question");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        connection: ConnectionArgs,

        #[command(flatten)]
        confirmation: ConfirmationArgs,
    }

    #[test]
    fn only_other_machines_need_a_confirmation() {
        let remote = "http://192.0.2.1:10002";
        for (endpoint, option, answer, is_asked, is_confirmed) in [
            (remote, None, Some(true), true, true),
            (remote, None, Some(false), true, false),
            (remote, None, None, true, true),
            (remote, Some("--yes"), Some(false), false, true),
            (remote, Some("-y"), Some(false), false, true),
            ("http://127.0.0.9:10002", None, Some(false), false, true),
            ("http://localhost:10002", None, Some(false), false, true),
            ("https://[::1]:10002", None, Some(false), false, true),
            ("http://storage:10002", None, Some(false), true, false),
        ] {
            let command = Command::parse_from(["rowhouse", "--endpoint", endpoint].into_iter().chain(option));
            let service = command.connection.service().unwrap();
            let mut asked = None;
            let ask = |question: &str| {
                asked = Some(question.to_owned());
                Ok(answer)
            };
            let confirmed = command.confirmation.confirm_by(ask, &command.connection, &service, "deletes it all");
            assert_eq!(
                (asked.is_some(), confirmed.is_ok()),
                (is_asked, is_confirmed),
                "{endpoint} {option:?} {answer:?}"
            );
            if let Some(asked) = asked {
                let expected = format!(
                    "This deletes it all, in the account 'devstoreaccount1' at {endpoint}/devstoreaccount1 (from --endpoint). \
                     Continue?"
                );
                assert_eq!(asked, expected);
            }
        }
    }
}

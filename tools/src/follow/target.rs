//! What changes are delivered to: standard output, a command or a webhook.
//!
//! This module must not know how often a delivery is attempted.

use super::args::FollowArgs;
use crate::runtime::TASK_FAILED;
use crate::terminal::TerminalSafeWriter;
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use client::JsonChange;
use client::http::header::{CONTENT_TYPE, RETRY_AFTER};
use client::http::{HeaderMap, HttpClient, HttpError, HttpOptions, Proxies, Request, Uri, system_roots, tls_config};
use platform::process::{kill_group, shell, start_in_own_group};
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A webhook acknowledges by its status. A larger response is refused.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) enum Target {
    Output,
    Command { line: String, time_max: Duration },
    Webhook(Box<Webhook>),
}

#[derive(Debug)]
pub(super) struct Webhook {
    url: Uri,
    http: HttpClient,
    is_array: bool,
    /// True if a connection was ever opened, including TLS. Until then, the URL may be wrong.
    was_reached: AtomicBool,
}

/// The reason why a delivery was not acknowledged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) reason: String,
    pub(super) retry_after: Option<Duration>,
}

impl Failed {
    fn new(reason: &impl ToString) -> Self {
        Self { reason: reason.to_string(), retry_after: None }
    }
}

impl Target {
    pub(super) fn new(args: &FollowArgs) -> anyhow::Result<Self> {
        let time_max = args.timeout;
        if let Some(line) = &args.exec {
            ensure!(!line.trim().is_empty(), "--exec is empty");
            return Ok(Self::Command { line: line.clone(), time_max });
        }
        let Some(url) = &args.webhook else { return Ok(Self::Output) };
        let url: Uri = url.parse().ok().context("--webhook is not a URL: write it like https://HOST/PATH")?;
        let is_http = url.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme));
        ensure!(is_http && url.host().is_some(), "--webhook is not a URL: write it like https://HOST/PATH");
        let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
        ensure!(
            !has_user,
            "--webhook must not contain a user name or password; put a secret into the path or the query"
        );
        let options =
            HttpOptions { request_time_max: time_max, body_bytes_max: RESPONSE_BYTES_MAX, ..HttpOptions::default() };
        let tls = tls_config(system_roots()).context("choosing the TLS versions")?;
        let http = HttpClient::with_proxies(options, tls, &Proxies::from_environment()?);
        let was_reached = AtomicBool::new(false);
        Ok(Self::Webhook(Box::new(Webhook { url, http, is_array: args.batch.is_some(), was_reached })))
    }

    pub(super) fn is_output(&self) -> bool {
        matches!(self, Self::Output)
    }

    /// Delivers changes. Fails if there is no use in another attempt.
    pub(super) async fn send(&self, changes: &[JsonChange]) -> anyhow::Result<Result<(), Failed>> {
        match self {
            Self::Output => print(lines(changes)).await.map(Ok),
            Self::Command { line, time_max } => Ok(run(line, lines(changes), *time_max).await),
            Self::Webhook(webhook) => webhook.post(changes).await,
        }
    }
}

/// Writes on another thread, because writing to a pipe blocks until its reader has read enough.
async fn print(lines: Vec<u8>) -> anyhow::Result<()> {
    let write = move || {
        let out = std::io::stdout();
        let mut out = TerminalSafeWriter { is_terminal: out.is_terminal(), out: out.lock() };
        out.write_all(&lines).and_then(|()| out.flush())
    };
    spawn_blocking(write).await.context(TASK_FAILED)?.context("writing to standard output")
}

fn lines(changes: &[JsonChange]) -> Vec<u8> {
    changes.iter().flat_map(|change| [change.json.as_bytes(), b"\n"]).collect::<Vec<_>>().concat()
}

fn body(changes: &[JsonChange], is_array: bool) -> Vec<u8> {
    let objects: Vec<_> = changes.iter().map(|change| change.json.as_str()).collect();
    let objects = objects.join(",\n");
    if is_array { format!("[{objects}]") } else { objects }.into_bytes()
}

async fn run(line: &str, input: Vec<u8>, time_max: Duration) -> Result<(), Failed> {
    let mut command = shell(line);
    // A signal from the terminal ends this program, but not the delivery in progress.
    start_in_own_group(&mut command);
    let child = Command::from(command).stdin(Stdio::piped()).kill_on_drop(true).spawn();
    let mut child = child.map_err(|error| Failed::new(&format_args!("the command cannot be started: {error}")))?;
    let mut pipe = child.stdin.take();
    let ended = async {
        let write = async {
            match pipe.take() {
                Some(mut pipe) => pipe.write_all(&input).await,
                None => Ok(()),
            }
        };
        let (written, status) = tokio::join!(write, child.wait());
        let status = status.map_err(|error| Failed::new(&format_args!("waiting for the command: {error}")))?;
        match written {
            _ if !status.success() => Err(Failed::new(&format_args!("the command failed with {status}"))),
            // The command did not want to read everything.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failed::new(&error)),
            _ => Ok(()),
        }
    };
    let in_time = timeout(time_max, ended).await;
    if let Ok(result) = in_time {
        return result;
    }
    Err(match stop(&mut child).await {
        Ok(()) => Failed::new(&"the command took too long and was stopped"),
        Err(error) => Failed::new(&format_args!("the command took too long and could not be stopped: {error}")),
    })
}

/// Kills the shell together with the programs that it started, which would otherwise still run during the next attempt.
async fn stop(shell: &mut Child) -> std::io::Result<()> {
    shell.id().map_or(Ok(()), kill_group)?;
    shell.wait().await.map(drop)
}

impl Webhook {
    /// Fails if no connection could be opened yet, because the URL may be wrong.
    async fn post(&self, changes: &[JsonChange]) -> anyhow::Result<Result<(), Failed>> {
        let body = Bytes::from(body(changes, self.is_array));
        let request = Request::post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        let sent = self.http.send(request.context("creating the request to the webhook")?).await;
        let is_reached = !matches!(&sent, Err(error) if is_unconnected(error));
        let was_reached = self.was_reached.fetch_or(is_reached, Ordering::Relaxed);
        let mut response = match sent {
            Ok(response) => response,
            Err(error) if !is_reached && !was_reached => {
                let hint = if error.is_refused() { " (is the program that receives the changes running?)" } else { "" };
                bail!("--webhook {}: {error}{hint}", self.origin())
            }
            Err(error) => return Ok(Err(Failed::new(&format_args!("the webhook {}: {error}", self.origin())))),
        };
        if response.status.is_success() {
            // Once its body is read, the connection can be used again.
            let _body = response.read_body().await;
            return Ok(Ok(()));
        }
        let reason = format!("the webhook responded with {}", response.status);
        Ok(Err(Failed { reason, retry_after: retry_after(&response.headers, SystemTime::now()) }))
    }

    /// Returns the URL without its path and query, which may contain a secret.
    fn origin(&self) -> String {
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        format!("{}://{authority}", self.url.scheme_str().unwrap_or_default())
    }
}

fn is_unconnected(error: &HttpError) -> bool {
    use HttpError::{Address, Connect, ProxyAuthorization, Tls};
    matches!(error, Address | Connect(_) | ProxyAuthorization | Tls(_))
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::ChangePosition;

    #[cfg(unix)]
    const LONG: Duration = Duration::from_mins(1);

    fn change(json: &str) -> JsonChange {
        JsonChange { position: ChangePosition::start_of(1), json: json.to_owned() }
    }

    #[test]
    fn changes_are_lines_or_json() {
        let changes = ["{\"a\":1}", "{\"a\":2}"].map(change);
        assert_eq!(lines(&changes), b"{\"a\":1}\n{\"a\":2}\n");
        assert_eq!(body(&changes, true), b"[{\"a\":1},\n{\"a\":2}]");
        assert_eq!(body(&changes[..1], true), b"[{\"a\":1}]");
        assert_eq!(body(&changes[..1], false), b"{\"a\":1}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_acknowledges_with_its_exit_code() {
        let input = || vec![b'x'; 1024 * 1024];
        assert_eq!(run("test $(wc -c) -eq 1048576", input(), LONG).await, Ok(()));
        assert_eq!(run("exit 0", input(), LONG).await, Ok(()), "a command need not read its input");
        for (line, time_max, reason) in [
            ("exit 3", LONG, "the command failed with exit status: 3"),
            ("kill -9 $$", LONG, "the command failed with signal: 9 (SIGKILL)"),
            ("exec sleep 60", Duration::from_millis(10), "the command took too long and was stopped"),
        ] {
            assert_eq!(run(line, input(), time_max).await, Err(Failed::new(&reason)));
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_takes_too_long_is_killed_with_the_programs_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).unwrap()
        });
        let line = format!("(sleep 60; echo survived) > '{}'; true", pipe.display());
        run(&line, Vec::new(), Duration::from_secs(1)).await.unwrap_err();
        // If the command was killed before it opened the pipe, the reader is still waiting for a writer.
        drop(std::fs::File::options().read(true).write(true).open(&pipe).unwrap());
        assert_eq!(reader.join().unwrap(), "");
    }

    #[test]
    fn a_webhook_can_ask_for_a_pause() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let asked = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, now).map(|pause| pause.as_secs())
        };
        assert_eq!(asked("17"), Some(17));
        assert_eq!(asked("Sun, 06 Nov 1994 08:50:00 GMT"), Some(23));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:00 GMT"), None);
        assert_eq!(asked("soon"), None);
    }
}

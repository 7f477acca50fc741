//! Ordinary clients of one account, which work while another account attacks. Each of their requests must succeed,
//! over existing connections and over new ones, and every acknowledged write must be stored.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use test_support::writers::{EntityWriter, Transactions, Until, Writer};
use test_support::{Client, Server, TIMEOUT};

const WRITERS: u64 = 3;
/// The maximum length of a failure message, which may quote an entity.
const MESSAGE_CHARS_MAX: usize = 300;

pub(super) struct Ordinary {
    writers: Vec<EntityWriter>,
    transactions: Transactions,
}

pub(super) struct Working<'scope> {
    clients: Vec<WorkingClient<'scope>>,
    is_killed: &'scope AtomicBool,
}

struct WorkingClient<'scope> {
    name: &'static str,
    succeeded: Receiver<()>,
    thread: ScopedJoinHandle<'scope, io::Result<()>>,
}

impl Ordinary {
    pub(super) fn new(server: &Server) -> Self {
        assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
        let writers = (0..WRITERS).map(|number| EntityWriter::new(number, number)).collect();
        Self { writers, transactions: Transactions::new(WRITERS) }
    }

    pub(super) fn work<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        address: &'scope str,
        is_killed: &'scope AtomicBool,
    ) -> Working<'scope> {
        let mut clients = Vec::new();
        for writer in &mut self.writers {
            clients.push(start(scope, is_killed, "writer", move |sender| {
                writer.write(address, sender, Until::Crash);
                Ok(())
            }));
        }
        let transactions = &mut self.transactions;
        clients.push(start(scope, is_killed, "writer of transactions", move |sender| {
            transactions.write(address, sender, Until::Crash);
            Ok(())
        }));
        clients.push(start(scope, is_killed, "reader", move |sender| {
            let mut client = Client::connect(address)?;
            loop {
                read(&mut client, sender)?;
            }
        }));
        clients.push(start(scope, is_killed, "newcomer", move |sender| {
            loop {
                read(&mut Client::connect(address)?, sender)?;
            }
        }));
        Working { clients, is_killed }
    }

    pub(super) fn check(&mut self, server: &Server) {
        let mut client = server.client();
        for writer in &mut self.writers {
            writer.check(&mut client, 0);
        }
        self.transactions.check(&mut client, 0);
    }
}

/// Starts a client. Its work stops with the server, and must not stop before the server is killed.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    is_killed: &'scope AtomicBool,
    name: &'static str,
    work: impl FnOnce(&Sender<()>) -> io::Result<()> + Send + 'scope,
) -> WorkingClient<'scope> {
    let (sender, succeeded) = channel();
    let thread = scope.spawn(move || {
        let ended = work(&sender);
        if is_killed.load(Ordering::SeqCst) { Ok(()) } else { ended.and(Err(io::ErrorKind::UnexpectedEof.into())) }
    });
    WorkingClient { name, succeeded, thread }
}

fn read(client: &mut Client, succeeded: &Sender<()>) -> io::Result<()> {
    for (path, expected) in [
        ("/crash(PartitionKey='writer0',RowKey='007')", &[200, 404][..]),
        ("/crash()?$filter=PartitionKey%20eq%20'writer0'", &[200]),
    ] {
        let answer = client.try_request("GET", path, &[], b"")?;
        if !expected.contains(&answer.status) {
            return Err(io::Error::other(format!("{path}: {} {:?}", answer.status, answer.header("x-ms-error-code"))));
        }
        // The receiver is dropped once the clients have been told to stop.
        let _ = succeeded.send(());
    }
    Ok(())
}

impl Working<'_> {
    /// Waits until every client has completed the given number of requests from now on. Returns descriptions of stalled
    /// clients.
    pub(super) fn progress(&self, requests: usize) -> Vec<String> {
        for client in &self.clients {
            client.succeeded.try_iter().for_each(drop);
        }
        let has_stopped =
            |client: &&WorkingClient<'_>| (0..requests).any(|_| client.succeeded.recv_timeout(TIMEOUT).is_err());
        self.clients.iter().filter(has_stopped).map(|client| format!("the {} is stalled", client.name)).collect()
    }

    /// Waits until the clients have stopped after the server was killed. Returns their earlier failures.
    pub(super) fn end(self, kill: impl FnOnce()) -> Vec<String> {
        self.is_killed.store(true, Ordering::SeqCst);
        kill();
        let ended = self.clients.into_iter().map(|client| (client.name, client.thread.join()));
        ended
            .filter_map(|(name, ended)| failure(ended).map(|failure| format!("the {name} failed: {failure}")))
            .collect()
    }
}

fn failure(ended: thread::Result<io::Result<()>>) -> Option<String> {
    match ended {
        Ok(ended) => ended.err().map(|error| error.to_string()),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map_or("a panic", String::as_str);
            Some(message.chars().take(MESSAGE_CHARS_MAX).collect())
        }
    }
}

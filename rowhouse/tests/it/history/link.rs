//! The connections of one server to its database, which a test cuts at any moment: a proxy for each database node.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What is lost before the connections are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Loss {
    Nothing,
    /// The database executes statements, but the server receives no answer.
    Answers,
    /// The database does not receive statements.
    Requests,
}

/// The proxies of one server. Their threads run until the test binary exits.
pub(super) struct Link {
    /// The address of the database through the proxies.
    pub(super) url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    loss: AtomicU8,
    streams: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Starts a proxy for each host in the URL of a database.
    pub(super) fn new(url: &str) -> Self {
        let shared = Arc::<Shared>::default();
        let (user, rest) = url.split_once('@').unwrap();
        let (hosts, database) = rest.split_once('/').unwrap();
        let proxies: Vec<_> = hosts.split(',').map(|host| listen(host, &shared)).collect();
        Self { url: format!("{user}@{}/{database}", proxies.join(",")), shared }
    }

    /// Loses what is sent in one direction, until [`Self::cut`].
    pub(super) fn lose(&self, loss: Loss) {
        self.shared.loss.store(loss as u8, Ordering::SeqCst);
    }

    /// Closes all connections. New ones work.
    pub(super) fn cut(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _may_be_closed = stream.shutdown(Shutdown::Both);
        }
        self.lose(Loss::Nothing);
    }
}

fn listen(node: &str, shared: &Arc<Shared>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (node, shared) = (node.to_owned(), Arc::clone(shared));
    thread::spawn(move || {
        for server in listener.incoming().map_while(Result::ok) {
            // A node that is down closes the connection.
            let Ok(node) = TcpStream::connect(&node) else { continue };
            let _failed = connect(&server, &node, &shared);
        }
    });
    address
}

fn connect(server: &TcpStream, node: &TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    server.set_nodelay(true)?;
    node.set_nodelay(true)?;
    shared.streams.lock().unwrap().extend([server.try_clone()?, node.try_clone()?]);
    for (from, to, lost) in [(server, node, Loss::Requests), (node, server, Loss::Answers)] {
        let (from, to, shared) = (from.try_clone()?, to.try_clone()?, Arc::clone(shared));
        thread::spawn(move || pass(from, to, lost, &shared));
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, lost: Loss, shared: &Shared) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let is_lost = shared.loss.load(Ordering::SeqCst) == lost as u8;
        if !is_lost && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _may_be_closed = stream.shutdown(Shutdown::Both);
    }
}

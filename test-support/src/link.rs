//! A proxy for the connections between two processes, which a test cuts, disturbs and delays at any moment.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What is lost until the connections are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// Everything arrives.
    Nothing,
    /// Requests arrive, but their sender receives no answer.
    Answers,
    /// Requests do not arrive.
    Requests,
    /// Nothing arrives in either direction.
    Everything,
}

/// The connections of one process to others. Dropping it closes them.
#[derive(Debug, Default)]
pub struct Link {
    shared: Arc<Shared>,
    addresses: Vec<String>,
}

#[derive(Debug, Default)]
struct Shared {
    loss: AtomicU8,
    delay_ms: AtomicU64,
    is_closed: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Starts a proxy for the server at an address, and returns the address of the proxy.
    pub fn listen(&mut self, server: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (server, shared) = (server.to_owned(), Arc::clone(&self.shared));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                // A server that is down closes the connection.
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let _failed = connect(&client, &server, &shared);
            }
        });
        self.addresses.push(address.clone());
        address
    }

    /// Loses what is sent, until [`Self::cut`].
    pub fn lose(&self, loss: Loss) {
        self.shared.loss.store(loss as u8, Ordering::SeqCst);
    }

    /// Delays what is sent in each direction, until [`Self::cut`].
    pub fn delay(&self, delay: Duration) {
        self.shared.delay_ms.store(delay.as_millis().try_into().unwrap(), Ordering::SeqCst);
    }

    /// Closes all connections. New ones work.
    pub fn cut(&self) {
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _may_be_closed = stream.shutdown(Shutdown::Both);
        }
        self.lose(Loss::Nothing);
        self.delay(Duration::ZERO);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        for address in &self.addresses {
            // The thread that waits for connections ends.
            let _may_be_closed = TcpStream::connect(address);
        }
        self.cut();
    }
}

fn connect(client: &TcpStream, server: &TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    shared.streams.lock().unwrap().extend([client.try_clone()?, server.try_clone()?]);
    for (from, to, lost) in [(client, server, Loss::Requests), (server, client, Loss::Answers)] {
        let (from, to, shared) = (from.try_clone()?, to.try_clone()?, Arc::clone(shared));
        thread::spawn(move || pass(from, to, lost, &shared));
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, lost: Loss, shared: &Shared) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        thread::sleep(Duration::from_millis(shared.delay_ms.load(Ordering::SeqCst)));
        let loss = shared.loss.load(Ordering::SeqCst);
        let is_lost = loss == lost as u8 || loss == Loss::Everything as u8;
        if !is_lost && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _may_be_closed = stream.shutdown(Shutdown::Both);
    }
}

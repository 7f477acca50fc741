//! A proxy that disturbs some requests to a server: it responds that the server is busy, drops the request, or drops
//! the response. It can also hold back a request, to keep the sender in the middle of its work.
//!
//! A [`Link`] is a proxy for the connections between two processes, which a test cuts, disturbs and delays at any
//! moment.

use crate::{Random, TIMEOUT};
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// The numbers of disturbances, by kind.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    /// The number of requests that were answered with 503.
    pub busy: AtomicU64,
    /// The number of requests that did not reach the server.
    pub dropped_requests: AtomicU64,
    /// The number of responses that did not reach the client completely.
    pub dropped_answers: AtomicU64,
}

#[derive(Debug)]
struct Gate {
    text: String,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, PartialEq)]
enum GateState {
    /// The number of requests that still pass before one is held back.
    Passing(usize),
    Holding,
    Open,
}

impl Gate {
    fn new(text: &str, state: GateState) -> Self {
        Self { text: text.to_owned(), state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits while a request is held back. Returns true if the request may be passed to the server. A request that was
    /// held back must never reach the server, because its sender may have stopped.
    fn allows(&self, request: &[u8]) -> bool {
        if !String::from_utf8_lossy(request).contains(&self.text) {
            return true;
        }
        let mut state = self.state.lock().unwrap();
        match &mut *state {
            GateState::Open => return true,
            GateState::Passing(left) if *left > 0 => {
                *left -= 1;
                return true;
            }
            other => *other = GateState::Holding,
        }
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| *state == GateState::Holding).unwrap());
        false
    }
}

/// A running proxy. Its threads run until the test binary exits.
#[derive(Debug)]
pub struct Proxy {
    /// Address and port.
    pub address: String,
    /// The disturbances so far.
    pub counts: Arc<Counts>,
    gate: Arc<Gate>,
}

impl Proxy {
    /// Starts a proxy that disturbs one in `one_of` requests, each time in a different way.
    pub fn start(server: &str, one_of: u64) -> Self {
        Self::with(server, one_of, Gate::new("", GateState::Open))
    }

    /// Starts a proxy that lets `passed` requests containing a string through and holds back the next ones.
    pub fn holding(server: &str, text: &str, passed: usize) -> Self {
        Self::with(server, u64::MAX, Gate::new(text, GateState::Passing(passed)))
    }

    fn with(server: &str, one_of: u64, gate: Gate) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (counts, gate) = (Arc::new(Counts::default()), Arc::new(gate));
        let (server, shared) = (server.to_owned(), (Arc::clone(&counts), Arc::clone(&gate)));
        thread::spawn(move || {
            for (stream, number) in listener.incoming().map_while(Result::ok).zip(1..) {
                let (server, (counts, gate)) = (server.clone(), shared.clone());
                // The thread exits when either side closes the connection.
                thread::spawn(move || serve(stream, &server, &mut Random::new(number), one_of, &counts, &gate));
            }
        });
        Self { address, counts, gate }
    }

    /// Waits until a request is held back.
    pub fn wait_until_held(&self) {
        let state = self.gate.state.lock().unwrap();
        let is_early = |state: &mut GateState| matches!(state, GateState::Passing(_));
        let (state, waited) = self.gate.changed.wait_timeout_while(state, TIMEOUT, is_early).unwrap();
        drop(state);
        assert!(!waited.timed_out(), "no request was held back");
    }

    /// Stops holding requests back. The connections of requests that were held back are closed.
    pub fn release(&self) {
        *self.gate.state.lock().unwrap() = GateState::Open;
        self.gate.changed.notify_all();
    }
}

fn serve(
    stream: TcpStream,
    server: &str,
    random: &mut Random,
    one_of: u64,
    counts: &Counts,
    gate: &Gate,
) -> Result<()> {
    let upstream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (mut client, mut server) = (BufReader::new(stream), BufReader::new(upstream));
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    while let Some(request) = message(&mut client)? {
        if !gate.allows(&request) {
            return Ok(());
        }
        let number = count(&counts.requests);
        let fate = if number % one_of == one_of - 1 { number / one_of % 3 } else { 3 };
        match fate {
            0 => {
                count(&counts.busy);
                let body =
                    "{\"odata.error\":{\"code\":\"ServerBusy\",\"message\":{\"lang\":\"en-US\",\"value\":\"Busy.\"}}}";
                let length = body.len();
                let head = "HTTP/1.1 503 Busy\r\nContent-Type: application/json\r\nContent-Length:";
                client.get_mut().write_all(format!("{head} {length}\r\n\r\n{body}").as_bytes())?;
            }
            1 => {
                count(&counts.dropped_requests);
                return Ok(());
            }
            _ => {
                server.get_mut().write_all(&request)?;
                let Some(answer) = message(&mut server)? else { return Ok(()) };
                if fate == 2 {
                    count(&counts.dropped_answers);
                    let half = answer.len() / 2 * usize::try_from(random.below(2)).unwrap();
                    return client.get_mut().write_all(&answer[..half]);
                }
                client.get_mut().write_all(&answer)?;
            }
        }
    }
    Ok(())
}

fn message(stream: &mut BufReader<TcpStream>) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut length = 0;
    loop {
        let start = bytes.len();
        if stream.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&bytes[start..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let head = bytes.len();
    bytes.resize(head + length, 0);
    stream.read_exact(&mut bytes[head..])?;
    Ok(Some(bytes))
}

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
                let _failed = join(&client, &server, &shared);
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

fn join(client: &TcpStream, server: &TcpStream, shared: &Arc<Shared>) -> Result<()> {
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

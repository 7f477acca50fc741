//! How attackers send and read: on many connections concurrently, slowly, or without reading at all.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use test_support::TIMEOUT;

/// The number of connections of an attack with large responses.
pub(super) const CONCURRENT_CONNECTIONS: usize = 16;
/// The pause between two steps of an ongoing attack.
const STEP: Duration = Duration::from_millis(5);

/// The time that an attacker waits for the server's connection queue.
const CONNECT_TIME: Duration = Duration::from_millis(100);

/// An attack that continues in a thread until the value is dropped.
pub(super) struct Ongoing {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ongoing {
    pub(super) fn start(mut step: impl FnMut() + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                step();
                thread::sleep(STEP);
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // A panic has already been printed. During the unwinding of another panic, a second panic would abort the
        // process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Opens a connection whose reads and writes block, but not forever. Returns `None` if the server has stopped.
pub(super) fn connect(address: &str) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    Some(stream)
}

/// The server may refuse to read the bytes.
pub(super) fn send_on_each(address: &str, connections: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let send = |_| {
        let mut stream = connect(address)?;
        let _ = stream.write_all(bytes);
        Some(stream)
    };
    (0..connections).filter_map(send).collect()
}

/// Sends each request on a separate connection, all of them concurrently, and reads the complete responses. Returns the
/// total size of the responses, and the statuses; a connection that was closed without a response has none.
pub(super) fn exchange_concurrently(address: &str, requests: &[Vec<u8>]) -> (usize, BTreeSet<String>) {
    let exchange = |request: &[u8]| {
        let Some(mut stream) = connect(address) else { return (0, String::new()) };
        let line_end = request.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (line, rest) = request.split_at(line_end);
        // The server may refuse the request, or close the connection, before it has read everything.
        let _ = stream.write_all(&[line, b"Connection: close\r\n", rest].concat());
        let (mut piece, mut length, mut status) = (vec![0; 64 * 1024], 0, String::new());
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            if length == 0 {
                status = String::from_utf8_lossy(&piece[..read.min(12)]).into_owned();
            }
            length += read;
        }
        (length, status)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = requests.iter().map(|request| scope.spawn(|| exchange(request))).collect();
        let (lengths, statuses): (Vec<_>, _) = threads.into_iter().map(|thread| thread.join().unwrap()).unzip();
        (lengths.iter().sum(), statuses)
    })
}

/// Reads from all connections, one byte of each at a time.
pub(super) fn read_byte_by_byte(mut streams: Vec<TcpStream>) -> Ongoing {
    set_nonblocking(&streams);
    Ongoing::start(move || {
        for stream in &mut streams {
            let _ = stream.read(&mut [0]);
        }
    })
}

/// The bytes are sent as far as the server accepts them, and nothing is read.
pub(super) fn send_repeatedly(mut streams: Vec<TcpStream>, bytes: Vec<u8>) -> Ongoing {
    set_nonblocking(&streams);
    Ongoing::start(move || {
        for stream in &mut streams {
            let _ = stream.write(&bytes);
        }
    })
}

/// Keeps a number of connections open after sending the given bytes on each. Connections that the server closes are
/// reopened.
pub(super) fn keep_reconnecting(address: &str, connections: usize, bytes: &'static [u8]) -> Ongoing {
    reconnect(address, connections, bytes, is_open)
}

/// Like [`keep_reconnecting`], but keeps sending `more`, whatever the server responds.
pub(super) fn send_without_end(address: &str, connections: usize, first: &'static [u8], more: Vec<u8>) -> Ongoing {
    reconnect(address, connections, first, move |stream| match stream.write(&more) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    })
}

fn reconnect(
    address: &str,
    connections: usize,
    first: &'static [u8],
    mut is_kept: impl FnMut(&mut TcpStream) -> bool + Send + 'static,
) -> Ongoing {
    let address: SocketAddr = address.parse().unwrap();
    let open = move |streams: &mut Vec<TcpStream>| {
        while streams.len() < connections {
            // The connection queue may be full, and at the end of the test the server may already have stopped.
            let Ok(mut stream) = TcpStream::connect_timeout(&address, CONNECT_TIME) else { return };
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(first);
            streams.push(stream);
        }
    };
    let mut streams = Vec::new();
    open(&mut streams);
    Ongoing::start(move || {
        streams.retain_mut(&mut is_kept);
        open(&mut streams);
    })
}

fn is_open(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1024]) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

fn set_nonblocking(streams: &[TcpStream]) {
    for stream in streams {
        stream.set_nonblocking(true).unwrap();
    }
}

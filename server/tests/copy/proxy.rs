//! A proxy in front of a server that disturbs now and then: answers that it is busy, drops requests, drops answers.

use crate::support::Random;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// How often the proxy does what.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) dropped_requests: AtomicU64,
    pub(crate) dropped_answers: AtomicU64,
}

/// A running proxy; its threads end with the test.
pub(crate) struct Proxy {
    pub(crate) address: String,
    pub(crate) counts: Arc<Counts>,
}

impl Proxy {
    /// Disturbs every so many-th request, in another way each time.
    pub(crate) fn start(server: &str, one_of: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let counts = Arc::new(Counts::default());
        let (server, shared) = (server.to_owned(), Arc::clone(&counts));
        thread::spawn(move || {
            for (stream, number) in listener.incoming().map_while(Result::ok).zip(1..) {
                let (server, counts) = (server.clone(), Arc::clone(&shared));
                // Ends when either side closes.
                thread::spawn(move || serve(stream, &server, &mut Random(number), one_of, &counts));
            }
        });
        Self { address, counts }
    }
}

fn serve(stream: TcpStream, server: &str, random: &mut Random, one_of: u64, counts: &Counts) -> Result<()> {
    let upstream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (mut client, mut server) = (BufReader::new(stream), BufReader::new(upstream));
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    while let Some(request) = message(&mut client)? {
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

/// The bytes of one request or answer; `None` at the end of the connection.
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

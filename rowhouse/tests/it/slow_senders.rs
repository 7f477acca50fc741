//! Tests of slow clients over raw sockets. The server's own tests cover other bad input.

use crate::PROGRAM;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use test_support::{Client, TIMEOUT, head};

/// Slow senders do not delay other clients, and a body that arrives byte by byte is cut off after 30 s.
#[test]
fn slow_senders() {
    let server = PROGRAM.start(&["--in-memory"]);
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
    let mut stalled: Vec<Client> = (0..200).map(|_| server.client()).collect();
    for (number, client) in stalled.iter_mut().enumerate() {
        let sent = if number % 2 == 0 {
            b"GET / HTTP/1.1\r\n".to_vec()
        } else {
            [head("POST", "/tab", &[("Content-Length", "1000")]).as_bytes(), &[b' '; 500]].concat()
        };
        client.send(&sent).unwrap();
    }
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);

    let started = Instant::now();
    let mut dripping = server.client();
    dripping.send(head("POST", "/tab", &[("Content-Length", "100000")]).as_bytes()).unwrap();
    dripping.set_read_timeout(Duration::from_millis(200));
    let end = loop {
        assert!(started.elapsed() < TIMEOUT, "the server is still waiting");
        if let Err(error) = dripping.send(b" ") {
            break error.kind();
        }
        match dripping.receive().map_err(|error| error.kind()) {
            Ok(answer) => panic!("{answer:?}"),
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(kind) => break kind,
        }
    };
    println!("cut off after {:?}: {end}", started.elapsed());
    drop(stalled);
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
    assert!(!log.iter().any(|line| line.contains("ERROR") || line.contains("panicked")), "{log:?}");
}

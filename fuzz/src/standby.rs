//! The protocol between a standby and its primary: requests, the heads of responses, and the data in them.

use bytes::Bytes;
use engine_embedded::fuzzing::receive_records;
use frames::{push_entry, take_entry};
use http::{HeaderMap, HeaderName, HeaderValue};
use protocol::{Answer, Ask, identity, key};

#[allow(dead_code, reason = "the size of a chunk is not used")]
#[path = "../../replication/src/frames.rs"]
mod frames;
#[allow(dead_code, unreachable_pub, reason = "the client is not used, and the file belongs to another crate")]
#[path = "../../replication/src/protocol.rs"]
mod protocol;

pub(crate) fn protocol(data: &[u8]) {
    if let Ok(header) = HeaderValue::from_bytes(data) {
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-rowhouse-ask"), header)]);
        if let Ok(ask) = Ask::read(&headers) {
            read_ask(&ask);
            let again: Ask =
                serde_json::from_str(&serde_json::to_string(&ask).expect("it is written")).expect("it is read");
            assert_eq!(again, ask);
        }
    }
    if let Ok((answer, body)) = Answer::decode(&Bytes::copy_from_slice(data)) {
        let again = Answer::decode(&answer.encode(&body)).expect("what is written is read");
        assert_eq!(again, (answer.clone(), body));
        if let Ok(lineage) = answer.lineage() {
            assert!(lineage.epoch() > 0 || lineage.newest().number == 0);
        }
    }
}

fn read_ask(ask: &Ask) {
    match ask {
        Ask::Begin { standby, .. } => drop(identity(standby)),
        Ask::Chunk { standby, after, .. } => {
            let _read = identity(standby);
            if let Some(Ok(key)) = after.as_deref().map(key) {
                let Ask::Chunk { after: again, .. } = Ask::chunk(engine_embedded::Identity::random(), 0, Some(&key))
                else {
                    unreachable!("it is a request for a chunk");
                };
                assert_eq!(&again, after);
            }
        }
        Ask::Records { log, epoch, .. } | Ask::Fence { log, epoch } => {
            let _read = (identity(log), epoch.epoch());
        }
    }
}

/// Chunks of a base copy, and records of the log. The first bytes are the number of the first record and the number of
/// records.
pub(crate) fn data(input: &[u8]) {
    let Some((first, rest)) = input.split_first_chunk() else { return };
    let Some((count, data)) = rest.split_first_chunk() else { return };
    receive_chunk(data);
    receive_records(u64::from_le_bytes(*first), u16::from_le_bytes(*count).into(), data);
}

/// Reads a chunk of a base copy. What is read is written as it was.
fn receive_chunk(data: &[u8]) {
    let mut rest = data;
    let mut written = Vec::new();
    while let Some((key, value)) = take_entry(&mut rest) {
        push_entry(&mut written, key, value);
    }
    assert!(data.starts_with(&written));
    assert_eq!(written.len() + rest.len(), data.len());
}

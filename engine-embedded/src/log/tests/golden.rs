//! Pins the bytes of a segment. A change here is a change to the format of the log.

use crate::log::format::{GroupHeader, SegmentEnd, SegmentHeader, SegmentHeaderError, records};
use crate::log::group::{EncodedTransaction, Group, Place};
use crate::sequence::Sequence;
use proptest::prelude::*;

const SALT: u64 = 0x0123_4567_89AB_CDEF;

fn header() -> SegmentHeader {
    SegmentHeader {
        id: 7,
        salt: SALT,
        epoch: 2,
        first: Sequence::new(1000),
        previous: SegmentEnd { offset: 8192, digest: 0x1122_3344_5566_7788 },
        skipped: 0,
    }
}

fn group() -> Group {
    let mut group = Group::new(Sequence::new(1000));
    let first = group.push(&EncodedTransaction::new(b"first payload".to_vec()).unwrap(), 0xAABB, 1);
    let second = group.push(&EncodedTransaction::new(Vec::new()).unwrap(), 0xAABC, 3);
    assert_eq!((first, second), (Sequence::new(1000), Sequence::new(1001)));
    group
}

const PLACE: Place = Place { salt: SALT, segment: 7, offset: 4096, synced_through: Sequence::new(998) };

fn hex(bytes: &[u8]) -> Vec<String> {
    let line = |chunk: &[u8]| {
        let digits = |half: u8| char::from_digit(u32::from(half), 16).unwrap();
        chunk.iter().flat_map(|byte| [digits(byte >> 4), digits(byte & 15)]).collect::<String>()
    };
    bytes.chunks(32).map(line).collect()
}

#[test]
fn the_header_of_a_segment_is_pinned() {
    let bytes = header().encode();
    let expected = [
        // Magic, version, reserved, ID, salt.
        "526f7768734c6f67000000010000000000000000000000070123456789abcdef",
        // Epoch, first sequence, offset and digest of the previous segment.
        "000000000000000200000000000003e800000000000020001122334455667788",
        // Skipped, checksum.
        "0000000000000000066898d826ba11b6",
    ];
    assert_eq!(hex(&bytes[..80]), expected);
    assert!(bytes[80..].iter().all(|byte| *byte == 0));
    assert_eq!(bytes.len(), 4096);
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header()));
    assert_eq!(header().beginning().offset, 4096);
    assert_eq!(header().beginning().digest.to_be_bytes(), bytes[72..80]);
}

#[test]
fn a_group_is_pinned() {
    let mut group = group();
    let sealed = group.seal(PLACE);
    let expected = [
        // Magic, length, offset, segment, first sequence.
        "52477270000000c00000000000001000000000000000000700000000000003e8",
        // Count, reserved, synced through, hash of the record headers, hash of the group header.
        "000000020000000000000000000003e68d966dd6aa8c156f89487bf84f73c773",
        // The first record: length, origin, reserved, sequence, stamp, hash of the payload.
        "0000000d0100000000000000000003e8000000000000aabb9dff9d36d8ba96b4",
        // The payload, and the beginning of the second record, which has no payload.
        "6669727374207061796c6f6164000000000300000000000000000003e9000000",
        // The rest of the second record, and padding.
        "000000aabc2d06800538d394c200000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
    ];
    assert_eq!(hex(sealed.bytes), expected);
    let end = sealed.end(header().beginning());
    assert_eq!((end.offset, end.digest), (4096 + 192, 18_220_161_819_314_722_246));
    let read = GroupHeader::decode(sealed.bytes, SALT, 7, 4096).unwrap();
    assert_eq!((read.first, read.last(), read.count), (Sequence::new(1000), Sequence::new(1001), 2));
    let payloads: Vec<_> = records(&sealed.bytes[64..], 2).map(|record| record.payload.to_vec()).collect();
    assert_eq!(payloads, [b"first payload".to_vec(), Vec::new()]);
}

#[test]
fn a_group_is_recognized_only_in_its_place() {
    let mut group = group();
    let sealed = group.seal(PLACE);
    assert!(GroupHeader::decode(sealed.bytes, SALT, 7, 4096).is_some());
    for (salt, segment, offset) in [(SALT + 1, 7, 4096), (SALT, 8, 4096), (SALT, 7, 4160)] {
        assert_eq!(GroupHeader::decode(sealed.bytes, salt, segment, offset), None);
    }
}

#[test]
fn a_header_with_another_version_or_a_wrong_bit_is_rejected() {
    let bytes = header().encode();
    for bit in 0..80 * 8 {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(SegmentHeader::decode(&changed).is_err(), "bit {bit}");
    }
    assert_eq!(SegmentHeader::decode(&[0; 4096]), Err(SegmentHeaderError::NotASegment));
    assert_eq!(SegmentHeader::decode(&bytes[..40]), Err(SegmentHeaderError::WrongChecksum));
    let mut newer = bytes;
    newer[11] = 2;
    let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&newer[..72], SALT);
    newer[72..80].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(SegmentHeader::decode(&newer), Err(SegmentHeaderError::Newer(2)));
}

proptest! {
    #[test]
    fn any_bytes_can_be_decoded(bytes in prop::collection::vec(any::<u8>(), 0..300), count in any::<u32>()) {
        let _ = SegmentHeader::decode(&bytes);
        let _ = GroupHeader::decode(&bytes, SALT, 7, 4096);
        prop_assert!(records(&bytes, count).count() <= bytes.len() / 32);
    }

    #[test]
    fn a_changed_bit_in_a_group_is_noticed_by_its_hashes(bit in 0..64 * 8usize) {
        let mut group = group();
        let mut bytes = group.seal(PLACE).bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(GroupHeader::decode(&bytes, SALT, 7, 4096), None);
    }
}

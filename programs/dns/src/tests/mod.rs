//! Tests without sockets. hickory reads the answers; the server uses it for neither questions nor answers.

mod zones;

use std::collections::BTreeMap;
use std::path::Path;

use hickory_proto::op::{Edns, Message, MessageType, Query as Question, ResponseCode};
use hickory_proto::rr::{Name, RecordSet, RecordType, RrKey};
use hickory_proto::serialize::binary::BinEncodable;
use hickory_proto::serialize::txt::Parser;
use proptest::prelude::*;

use crate::query::Query;
use crate::responder::Responder;
use crate::zone::Zone;

const ZONE: &str = include_str!("../../example.zone");

fn zone() -> Zone {
    Zone::parse(ZONE.as_bytes(), Path::new("zone")).expect("a zone")
}

/// The zone as hickory parses it.
fn records() -> BTreeMap<RrKey, RecordSet> {
    Parser::new(ZONE, None, None).parse().expect("a zone").1
}

/// The longest answer over UDP.
const MAX_UDP: usize = 1232;

fn responder() -> Responder {
    Responder::new(zone(), 0, MAX_UDP as u16).expect("random bytes")
}

/// The answer's bytes; `None` for no answer.
fn answered(datagram: &[u8]) -> Option<Vec<u8>> {
    let mut out = [0xEE; MAX_UDP];
    let from = "192.0.2.1:1234".parse().expect("an address");
    let responder = responder();
    responder.answer_udp(&responder.zone(), datagram, from, &mut out).map(|len| out[..len].to_vec())
}

fn question(name: &str, ty: RecordType, size: Option<u16>) -> Message {
    let mut message = Message::new();
    let name = Name::from_ascii(name).expect("a name");
    message.set_id(0x1234).add_query(Question::query(name, ty));
    if let Some(size) = size {
        let mut edns = Edns::new();
        edns.set_max_payload(size);
        message.set_edns(edns);
    }
    message
}

/// Names in the zone, near it and far from it.
fn names() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec![
        "www", "ftp", "files", "broken", "round", "any", "deep", "empty", "child", "ns", "big",
        "x", "*", "WWW", "_sip", "_udp", "mail",
    ]);
    let end =
        prop::sample::select(vec!["example.test.", "eXaMple.Test.", "test.", "example.org.", "."]);
    (prop::collection::vec(label, 0..4), end).prop_map(|(labels, end)| {
        let labels: String = labels.iter().map(|label| format!("{label}.")).collect();
        if end == "." && !labels.is_empty() { labels } else { labels + end }
    })
}

fn record_types() -> impl Strategy<Value = RecordType> {
    use RecordType::{A, AAAA, ANY, CNAME, DS, MX, NS, SOA, SRV, TXT};
    prop::sample::select(vec![A, AAAA, ANY, CNAME, DS, MX, NS, SOA, SRV, TXT])
}

/// Well-formed questions.
fn questions() -> impl Strategy<Value = Message> {
    (names(), record_types(), prop::option::of(any::<u16>()))
        .prop_map(|(name, ty, size)| question(&name, ty, size))
}

/// A well-formed question with some bytes changed, perhaps truncated.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (questions(), changes, prop::option::of(any::<prop::sample::Index>())).prop_map(
        |(message, changes, cut)| {
            let mut bytes = message.to_bytes().expect("it can be written");
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len() + 1)));
            bytes
        },
    )
}

/// Checks that hold for the answer to any datagram.
fn check_any(datagram: &[u8], back: Option<Vec<u8>>) -> Result<(), TestCaseError> {
    let Some(back) = back else {
        prop_assert!(datagram.len() < 12 || datagram[2] & 0x80 != 0, "silence");
        return Ok(());
    };
    prop_assert_eq!(&back[..2], &datagram[..2]);
    prop_assert!(back[2] & 0x80 != 0, "an answer");
    prop_assert_eq!(back[2] & 0x79, datagram[2] & 0x79);
    let message = Message::from_vec(&back);
    prop_assert!(message.is_ok(), "{:?}: {:?}", message, back);
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_answered_properly_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_any(&bytes, answered(&bytes))?;
    }

    #[test]
    fn damaged_questions_are_answered_properly_or_not_at_all(bytes in damaged()) {
        check_any(&bytes, answered(&bytes))?;
    }

    #[test]
    fn a_question_is_read_as_hickory_reads_it(message in questions()) {
        let bytes = message.to_bytes().expect("it can be written");
        let query = Query::read(&bytes).expect("a question");
        prop_assert_eq!(query.wrong, None);
        let asked = &message.queries()[0];
        let lower = asked.name().to_lowercase().to_bytes().expect("it can be written");
        prop_assert_eq!(query.name.as_bytes(), &lower[..]);
        prop_assert_eq!(query.ty, u16::from(asked.query_type()));
        prop_assert_eq!(query.class, u16::from(asked.query_class()));
        let size = query.edns.map(|edns| edns.size);
        prop_assert_eq!(size, message.extensions().as_ref().map(Edns::max_payload));
    }

    /// An answer holds only records of the zone or its wildcards, and all of them that fit; and it says correctly
    /// when there are none.
    #[test]
    fn an_answer_is_what_the_zone_has(message in questions()) {
        let bytes = message.to_bytes().expect("it can be written");
        let back = answered(&bytes).expect("it is answered");
        let size = message.extensions().as_ref().map_or(512, Edns::max_payload);
        prop_assert!(back.len() <= usize::from(size).clamp(512, MAX_UDP), "{} bytes", back.len());
        let answer = Message::from_vec(&back).expect("it can be read");
        prop_assert_eq!(answer.id(), message.id());
        prop_assert_eq!(answer.message_type(), MessageType::Response);
        prop_assert_eq!(answer.queries(), message.queries());
        prop_assert_eq!(answer.extensions().is_some(), message.extensions().is_some());

        let (records, asked) = (records(), &message.queries()[0]);
        let find = |name: &Name, ty| records.get(&RrKey::new(name.to_lowercase().into(), ty));
        let sections = [answer.answers(), answer.name_servers(), answer.additionals()];
        for record in sections.into_iter().flatten() {
            let wildcard = Name::from_ascii("*.any.example.test.").expect("a name");
            let set = find(record.name(), record.record_type())
                .or_else(|| find(&wildcard, record.record_type()));
            let set = set.unwrap_or_else(|| panic!("{record} is not in the zone"));
            let known = set.records_without_rrsigs().any(|other| other.data() == record.data());
            prop_assert!(known, "{} is not in the zone", record);
        }

        let apex = Name::from_ascii("example.test.").expect("a name");
        if !apex.zone_of(asked.name()) {
            prop_assert_eq!(answer.response_code(), ResponseCode::Refused);
        } else if let Some(set) = find(asked.name(), asked.query_type()) {
            let below_a_cut = Name::from_ascii("child.example.test.").expect("a name").zone_of(asked.name());
            if !below_a_cut && !answer.truncated() {
                prop_assert_eq!(answer.response_code(), ResponseCode::NoError);
                prop_assert!(answer.authoritative());
                prop_assert_eq!(answer.answers().len(), set.records_without_rrsigs().count());
            }
        }
        if answer.response_code() == ResponseCode::NXDomain {
            prop_assert!(answer.name_servers().iter().all(|one| one.record_type() == RecordType::SOA));
            prop_assert!(answer.truncated() || answer.name_servers().len() == 1);
        }
    }
}

/// The addresses of these servers do not fit the message (RFC 9471).
#[test]
fn addresses_left_out_of_a_referral_are_said() {
    let label = "n".repeat(60);
    let server = |n| format!("sub NS {label}{n}.sub\n{label}{n}.sub A 192.0.2.1\n");
    let zone = format!("{ZONE}{}", (100..600).map(server).collect::<String>());
    let zone = Zone::parse(zone.as_bytes(), Path::new("zone")).expect("a zone");
    let responder = Responder::new(zone, 0, MAX_UDP as u16).expect("random bytes");
    let bytes = question("a.sub.example.test.", RecordType::A, None).to_bytes().expect("bytes");
    let (mut out, from) = (vec![0; 65_535], "192.0.2.1".parse().expect("an address"));
    let len = responder.answer_tcp(&bytes, from, &mut out).expect("an answer");
    let answer = Message::from_vec(&out[..len]).expect("it can be read");
    assert_eq!(answer.name_servers().len(), 500);
    assert!(answer.truncated() && answer.additionals().len() < 500);
}

/// A query with EDNS gets an answer with EDNS even if it is wrong (RFC 6891, section 6.1.1).
#[test]
fn edns_is_answered_with_edns() {
    let www = b"\x03www\x07example\x04test\0\0\x01\0\x01";
    // A record without data whose name is a pointer to the question's.
    let record = [0xc0, 12, 0, 1, 0, 255, 0, 0, 0, 0, 0, 0];
    // Version 0 with "DNSSEC OK"; then the same with a truncated option.
    let opt = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];
    let truncated = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 2, 0, 10];
    // A cookie of 7 bytes.
    let short_cookie = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 11, 0, 10, 0, 7, 1, 2, 3, 4, 5, 6, 7];
    let (query, notify, update) = (0, 4 << 3, 5 << 3);
    let (form, not_implemented) = (1, 4);
    type Case<'a> = (u8, [u8; 4], &'a [&'a [u8]], u8);
    let cases: [Case<'_>; 8] = [
        (notify, [1, 0, 0, 1], &[www, &opt], not_implemented),
        (notify, [1, 1, 0, 1], &[www, &record, &opt], not_implemented),
        (update, [1, 1, 1, 2], &[www, &record, &record, &record, &opt], not_implemented),
        (query, [0, 0, 0, 1], &[&opt], form),
        (query, [1, 0, 0, 1], &[www, &short_cookie], form),
        (query, [2, 0, 0, 1], &[www, www, &opt], form),
        (query, [1, 0, 0, 2], &[www, &opt, &opt], form),
        (query, [1, 0, 0, 1], &[www, &truncated], form),
    ];
    for (flags, counts, parts, code) in cases {
        let mut bytes = vec![0x12, 0x34, flags, 0];
        bytes.extend(counts.iter().flat_map(|count| [0, *count]));
        bytes.extend(parts.concat());
        let back = answered(&bytes).expect("it is answered");
        assert_eq!((back[2], back[3]), (0x80 | flags, code), "{bytes:?}");
        let message = Message::from_vec(&back).expect("it can be read");
        let edns = message.extensions().as_ref().expect("EDNS");
        assert_eq!((edns.version(), edns.flags().dnssec_ok), (0, true), "{bytes:?}");

        // A truncated OPT record does not count as EDNS.
        let last = parts.last().expect("one at least").len();
        bytes.truncate(bytes.len() - last + 5);
        let back = answered(&bytes).expect("it is answered");
        let message = Message::from_vec(&back).expect("it can be read");
        assert_eq!(message.extensions().is_some(), counts == [1, 0, 0, 2], "{bytes:?}");
    }
}

/// A query signed by a key that the server does not have (RFC 8945, section 5.2.1).
#[test]
fn a_signature_by_an_unknown_key_is_said_to_be_one() {
    let algorithm = b"\x0bhmac-sha256\0";
    let mut bytes =
        b"\x12\x34\0\0\0\x01\0\0\0\0\0\x01\x03www\x07example\x04test\0\0\x01\0\x01".to_vec();
    bytes.extend(b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x3d");
    bytes.extend(algorithm);
    bytes.extend([0, 0, 1, 2, 3, 4, 1, 44, 0, 32]);
    bytes.extend([7; 32]);
    bytes.extend([0x12, 0x34, 0, 0, 0, 0]);
    let back = answered(&bytes).expect("it is answered");
    assert_eq!((back[3] & 0xf, back[7], back[11]), (9, 0, 1), "NOTAUTH, no answer, one record");
    let mut record = b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x1d".to_vec();
    record.extend(algorithm);
    // Without a signature; error 17 (BADKEY).
    record.extend([0, 0, 1, 2, 3, 4, 1, 44, 0, 0, 0x12, 0x34, 0, 17, 0, 0]);
    assert!(back.ends_with(&record), "{back:?}");
    // A compressed name cannot be repeated.
    let compressed = [&bytes[..34], &[0xc0, 12], &bytes[39..]].concat();
    let back = answered(&compressed).expect("it is answered");
    assert_eq!((back[3] & 0xf, back[11]), (9, 0));
    // The signature must be the last record, and whole.
    let cut = &bytes[..bytes.len() - 1];
    assert_eq!(answered(cut).expect("it is answered")[3] & 0xf, 1);
}

/// Names in data point to earlier ones, as NSD's and Knot's do.
#[test]
fn names_in_data_are_compressed() {
    for (name, ty, len) in [
        // Its target is below the name asked for: 12 + 22 + (12 + 2 + 4), and two addresses of 16 bytes.
        ("ftp.example.test.", RecordType::CNAME, 12 + 22 + 12 + 6),
        ("example.test.", RecordType::SOA, 0),
        ("none.example.test.", RecordType::A, 0),
    ] {
        let bytes = question(name, ty, None).to_bytes().expect("bytes");
        let back = answered(&bytes).expect("it is answered");
        let whole = Message::from_vec(&back).expect("it can be read").to_bytes().expect("bytes");
        assert!(back.len() <= whole.len(), "{name}: {} bytes, {}", back.len(), whole.len());
        assert!(len == 0 || back.len() == len, "{name}: {} bytes", back.len());
    }
}

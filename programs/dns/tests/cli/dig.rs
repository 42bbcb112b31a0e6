//! Answers as dig receives them.

use std::net::IpAddr;

use crate::MODES;
use crate::program::{Server, has_ipv6, loopbacks, run, serve};

/// An answer as dig prints it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    status: String,
    flags: String,
    /// The EDNS line, or an empty string.
    edns: String,
    /// The records of all sections in order: names, types and data, with single spaces.
    records: Vec<String>,
}

/// Asks the server at one of its addresses; `None` if dig is not installed.
fn dig_at(ip: IpAddr, server: &Server, question: &[&str]) -> Option<Answer> {
    let (at, port) = (format!("@{ip}"), server.addr.port().to_string());
    let mut args = vec!["+norecurse", "+tries=1", "+time=100", "+ignore", &at, "-p", &port];
    args.extend(question);
    let output = run("dig", &args)?;
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "dig {question:?}: {text}");
    let mut answer = Answer::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let of_interest = |what: &str, end: char| {
            let (_, rest) = line.split_once(what)?;
            Some(rest.split(end).next().unwrap_or(rest).trim().to_string())
        };
        if let Some(status) = of_interest("status: ", ',') {
            answer.status = status;
        } else if let Some(flags) = of_interest(";; flags: ", ';') {
            answer.flags = flags;
        } else if let Some(edns) = of_interest("; EDNS: ", '\0') {
            answer.edns = edns;
        } else if !line.starts_with(';') {
            let words: Vec<_> = line.split_whitespace().collect();
            answer.records.push(words.join(" "));
        }
    }
    Some(answer)
}

/// Asks again if dig received its own query, which has no `qr` flag: dig sets `SO_REUSEPORT`, so the system may give
/// it the port of a server that sets it too.
fn dig(server: &Server, question: &[&str]) -> Option<Answer> {
    let ask = || dig_at(server.addr.ip(), server, question);
    let answer = ask()?;
    if answer.flags.split(' ').any(|flag| flag == "qr") { Some(answer) } else { ask() }
}

const SOA: &str = "example.test. 300 IN SOA ns1.example.test. hostmaster.example.test. 2026010101 7200 1800 1209600 300";
const EDNS: &str = "version: 0, flags:; udp: 1232";

/// A question and the expected status, flags and records.
type Case = (&'static [&'static str], &'static str, &'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    (
        &["www.example.test"],
        "NOERROR",
        "qr aa",
        &["www.example.test. 3600 IN A 192.0.2.80", "www.example.test. 3600 IN A 192.0.2.81"],
    ),
    // The answer keeps the question's letter case.
    (
        &["wWw.eXample.test", "AAAA"],
        "NOERROR",
        "qr aa",
        &["wWw.eXample.test. 3600 IN AAAA 2001:db8::80"],
    ),
    (
        &["example.test", "MX"],
        "NOERROR",
        "qr aa",
        &["example.test. 3600 IN MX 10 mail.example.test."],
    ),
    (
        &["_sip._udp.example.test", "SRV"],
        "NOERROR",
        "qr aa",
        &["_sip._udp.example.test. 3600 IN SRV 10 60 5060 www.example.test."],
    ),
    (&["missing.example.test"], "NXDOMAIN", "qr aa", &[SOA]),
    (&["mail.example.test", "AAAA"], "NOERROR", "qr aa", &[SOA]),
    // A name that exists only because there are names below it.
    (&["empty.example.test"], "NOERROR", "qr aa", &[SOA]),
    (
        &["files.example.test", "AAAA"],
        "NOERROR",
        "qr aa",
        &[
            "files.example.test. 3600 IN CNAME ftp.example.test.",
            "ftp.example.test. 3600 IN CNAME www.example.test.",
            "www.example.test. 3600 IN AAAA 2001:db8::80",
        ],
    ),
    (
        &["ftp.example.test", "CNAME"],
        "NOERROR",
        "qr aa",
        &["ftp.example.test. 3600 IN CNAME www.example.test."],
    ),
    (
        &["broken.example.test"],
        "NXDOMAIN",
        "qr aa",
        &["broken.example.test. 3600 IN CNAME missing.example.test.", SOA],
    ),
    (
        &["away.example.test"],
        "NOERROR",
        "qr aa",
        &["away.example.test. 3600 IN CNAME www.example.net."],
    ),
    (
        &["round.example.test"],
        "NOERROR",
        "qr aa",
        &[
            "round.example.test. 3600 IN CNAME and-round.example.test.",
            "and-round.example.test. 3600 IN CNAME round.example.test.",
        ],
    ),
    (
        &["a.b.any.example.test"],
        "NOERROR",
        "qr aa",
        &["a.b.any.example.test. 3600 IN A 192.0.2.100"],
    ),
    (&["a.any.example.test", "MX"], "NOERROR", "qr aa", &[SOA]),
    (
        &["www.child.example.test"],
        "NOERROR",
        "qr",
        &[
            "child.example.test. 3600 IN NS ns.child.example.test.",
            "child.example.test. 3600 IN NS ns.example.net.",
            "ns.child.example.test. 3600 IN A 192.0.2.53",
        ],
    ),
    (&["child.example.test", "DS"], "NOERROR", "qr aa", &[SOA]),
    // Only the shortest set of the name (RFC 8482).
    (
        &["www.example.test", "ANY", "+notcp"],
        "NOERROR",
        "qr aa",
        &["www.example.test. 3600 IN AAAA 2001:db8::80"],
    ),
    (&["example.org"], "REFUSED", "qr", &[]),
    (&["test"], "REFUSED", "qr", &[]),
    (&["www.example.test", "CH"], "REFUSED", "qr", &[]),
    (&["+opcode=NOTIFY", "example.test", "SOA"], "NOTIMP", "qr", &[]),
    (&["+opcode=NOTIFY", "example.test", "SOA", "+noedns"], "NOTIMP", "qr", &[]),
    // A header and a cookie without a question (RFC 7873, section 5.4).
    (&["+header-only", "+cookie"], "NOERROR", "qr", &[]),
];

#[test]
fn every_type_of_answer_follows_the_rfcs() {
    // How a server receives and sends does not change its answers, so one server gets all questions.
    let mut cases = CASES;
    for mode in MODES {
        for addr in loopbacks() {
            let server = serve(addr, &["--mode", mode]);
            for (question, status, flags, records) in cases {
                let Some(answer) = dig(&server, question) else { return };
                assert_eq!(answer.status, *status, "{mode}: {question:?}: {answer:?}");
                assert_eq!(answer.flags, *flags, "{mode}: {question:?}: {answer:?}");
                assert_eq!(answer.records, *records, "{mode}: {question:?}");
                let edns = if question.contains(&"+noedns") { "" } else { EDNS };
                assert_eq!(answer.edns, edns, "{mode}: {question:?}");
            }
            let count = cases.len();
            let totals = format!(
                "total: received {count}, answered {count}, failed 0, dropped by the system 0, by TCP 0"
            );
            assert_eq!(server.stop(), [totals], "{mode}");
            cases = &CASES[..5];
        }
    }
}

#[test]
fn long_answers_are_truncated_to_the_edns_size() {
    for mode in MODES {
        let server = serve("127.0.0.1:0", &["--mode", mode]);
        let big =
            |options: &[&str]| dig(&server, &[&["big.example.test", "TXT"], options].concat());
        let Some(plain) = big(&["+noedns"]) else { return };
        assert_eq!((plain.flags.as_str(), plain.records.len()), ("qr aa tc", 0));
        assert_eq!(plain.edns, "");
        for (size, whole) in
            [("0", false), ("512", false), ("667", false), ("668", true), ("65535", true)]
        {
            let answer = big(&[&format!("+bufsize={size}"), "+nocookie"]).expect("dig is there");
            let expected = if whole { ("qr aa", 3) } else { ("qr aa tc", 0) };
            assert_eq!((answer.flags.as_str(), answer.records.len()), expected, "{size}");
            assert_eq!(answer.edns, EDNS);
        }
        let version = dig(&server, &["www.example.test", "+edns=1", "+noednsnegotiation"]);
        assert_eq!(version.expect("dig is there").status, "BADVERS");
        let secure = dig(&server, &["www.example.test", "+dnssec"]).expect("dig is there");
        assert_eq!(secure.edns, "version: 0, flags: do; udp: 1232");
    }
}

#[test]
fn truncated_answers_are_whole_by_tcp() {
    for mode in MODES {
        for addr in loopbacks() {
            let server = serve(addr, &["--mode", mode]);
            for options in [&["+noignore", "+noedns"][..], &["+tcp"]] {
                let answer = dig(&server, &[&["big.example.test", "TXT"], options].concat());
                let Some(answer) = answer else { return };
                assert_eq!(
                    (answer.flags.as_str(), answer.records.len()),
                    ("qr aa", 3),
                    "{mode} {options:?}"
                );
            }
            assert_eq!(
                server.stop(),
                ["total: received 1, answered 1, failed 0, dropped by the system 0, by TCP 2"]
            );
        }
    }
}

/// dig ignores answers from another address than it asked.
#[test]
fn answers_leave_from_the_address_that_was_asked() {
    for mode in ["batch", "offload"] {
        for (listen, asked) in
            [("0.0.0.0:0", &["127.0.0.1", "127.0.0.5"][..]), ("[::]:0", &["::1"])]
        {
            if listen == "[::]:0" && !has_ipv6() {
                continue;
            }
            let server = serve(listen, &["--mode", mode]);
            for ip in asked {
                let ip = ip.parse().expect("an address");
                let Some(answer) = dig_at(ip, &server, &["ns1.example.test"]) else { return };
                assert_eq!(answer.records, ["ns1.example.test. 3600 IN A 192.0.2.1"], "{mode}");
            }
        }
    }
}

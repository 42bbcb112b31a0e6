//! Zone files, beside what NSD and Knot serve for the same text (`tests/zones/cases.txt`, written by `zones.sh`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::zone::Zone;

const CASES: &str = include_str!("../../tests/zones/cases.txt");
const HEAD: &str = "$TTL 60\n@ IN SOA ns host 1 2 3 4 5\n@ IN NS ns\n";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zones/");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zones/example.test.zone");

/// The zone's records as the cases have them, or why there are none.
fn served(text: &str, has_head: bool) -> Result<Vec<String>, String> {
    let zone = Zone::parse(text.as_bytes(), Path::new(FILE))?;
    let mut lines = Vec::new();
    let sets =
        zone.nodes.iter().flat_map(|(name, node)| node.sets.iter().map(move |set| (name, set)));
    for (name, ty, record) in
        sets.flat_map(|(name, set)| set.records.iter().map(move |record| (name, set.ty, record)))
    {
        let ttl = u32::from_be_bytes(record[4..8].try_into().expect("four bytes"));
        let mut data: String = record[10..].iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        if data.is_empty() {
            data.push('-');
        }
        let is_head = data.starts_with("026e73076578616d706c65") && name.len() == 14;
        if !(has_head && matches!(ty, 2 | 6) && is_head) {
            lines.push(format!("{} {ttl} {ty} {data}", presentation(name)));
        }
    }
    lines.sort();
    Ok(lines)
}

/// A name as dig writes it.
fn presentation(mut name: &[u8]) -> String {
    let mut text = String::new();
    while let [len, rest @ ..] = name
        && *len > 0
    {
        let (label, rest) = rest.split_at((*len).into());
        for byte in label {
            let _ = match byte {
                b'.' | b'"' | b'(' | b')' | b';' | b'\\' | b'@' | b'$' => {
                    write!(text, "\\{}", *byte as char)
                }
                b'!'..=b'~' => write!(text, "{}", *byte as char),
                _ => write!(text, "\\{byte:03}"),
            };
        }
        text.push('.');
        name = rest;
    }
    text
}

#[test]
fn times_out_of_their_range_are_refused() {
    for line in ["a 1\u{e9} A 192.0.2.1", "a 1\\255 A 192.0.2.1", "$TTL 60\u{e9}"] {
        let error = served(&format!("{HEAD}{line}\n"), true).expect_err(line);
        assert!(error.contains("example.test.zone:4: expected "), "{error}");
    }
}

#[test]
fn zone_files_are_served_as_nsd_and_knot_serve_them_or_refused() {
    let mut counts = BTreeMap::new();
    for case in CASES.split("### ").skip(1) {
        let (title, rest) = case.split_once('\n').expect("a title");
        let (said, text): (Vec<_>, Vec<_>) = rest
            .split_inclusive('\n')
            .partition(|line| line.starts_with("=> ") || line.starts_with("=! "));
        let said: Vec<_> = said.into_iter().map(str::trim_end).collect();
        let after = |start: &str| {
            said.iter().filter_map(|line| line.strip_prefix(start)).collect::<Vec<_>>()
        };
        let (both, nsd, knot, here) =
            (after("=> "), after("=> NSD: "), after("=> Knot: "), after("=! "));

        let has_head = !rest.contains("SOA");
        let text = format!("{}{}", if has_head { HEAD } else { "" }, text.concat());
        let ours = served(&text, has_head);
        let lines = match &ours {
            Ok(lines) => lines.iter().map(String::as_str).collect(),
            Err(error) => {
                let line = error
                    .strip_prefix(FOLDER)
                    .and_then(|rest| rest.split(':').nth(1)?.parse::<usize>().ok());
                let last = if error.starts_with(FILE) { text.lines().count() } else { usize::MAX };
                assert!(line.is_some_and(|line| (1..=last).contains(&line)), "{title}: {error}");
                assert!(
                    error.contains("expected ") || error.contains("cannot read"),
                    "{title}: {error}"
                );
                vec!["refused"]
            }
        };
        // The last line may have no end.
        assert_eq!(
            served(text.trim_end_matches(['\r', '\n']), has_head).is_ok(),
            ours.is_ok(),
            "{title}"
        );
        let outcome = match &lines[..] {
            lines if !here.is_empty() => {
                assert_eq!(lines, here, "{title}: {ours:?}");
                if here == ["refused"] {
                    "refused here alone"
                } else {
                    "served here alone, or in another way"
                }
            }
            lines if nsd.is_empty() => {
                assert_eq!(lines, both, "{title}: {ours:?}");
                if both == ["refused"] { "refused by all" } else { "served alike by all" }
            }
            ["refused"] => "different in NSD and Knot, refused here",
            lines => {
                assert!(
                    [&nsd[..], &knot].contains(&lines),
                    "{title}: NSD {nsd:?}, Knot {knot:?}, here {ours:?}"
                );
                if lines == nsd { "as NSD, not Knot" } else { "as Knot, not NSD" }
            }
        };
        counts.entry(outcome).or_insert_with(Vec::new).push(title);
    }
    for (outcome, titles) in &counts {
        println!(
            "{:4} {outcome}: {}",
            titles.len(),
            if titles.len() < 40 { titles.join("; ") } else { String::new() }
        );
    }
    assert!(counts.values().map(Vec::len).sum::<usize>() >= 200);
}

//! The configuration file, in the form of wg-quick(8).
//!
//! No message repeats text of the file: messages end up in logs, and with one slip of the hand any line holds a key.

use std::hash::RandomState;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use gotatun::device::Peer;
use gotatun::x25519::{PublicKey, StaticSecret};
use hashlink::LinkedHashMap;
use ipnetwork::IpNetwork;

/// The MTU that wg-quick gives a device on a path of 1,500 bytes.
const MTU: u16 = 1420;
const MTUS: RangeInclusive<u16> = 576..=9000;
/// How often to look up a name that does not resolve yet. As for `wg`, each pause is a fifth longer.
const LOOKUPS: u32 = 15;

pub struct Config {
    pub private_key: StaticSecret,
    pub addresses: Vec<IpNetwork>,
    pub port: u16,
    pub mtu: u16,
    pub mark: u32,
    pub peers: Vec<Peer>,
}

/// The key of a [Peer] whose PublicKey has not been read.
const NO_KEY: [u8; 32] = [0; 32];

impl Config {
    /// Reads the text of a file. Errors and what `note` gets name their line.
    pub fn parse(text: &str, note: &mut dyn FnMut(String)) -> Result<Self, String> {
        let (mut private_key, mut addresses, mut port) = (None, Vec::new(), 0);
        let (mut mtu, mut mark, mut section) = (MTU, 0, String::new());
        let mut peers = Vec::<(usize, Peer)>::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = |said: String| format!("line {number}: {said}");
            let Some((name, value)) = line.split_once('=') else {
                match line.to_ascii_lowercase().as_str() {
                    "" => continue,
                    "[interface]" => {}
                    "[peer]" => peers.push((number, Peer::new(PublicKey::from(NO_KEY)))),
                    _ => return Err(at("neither a section nor NAME = VALUE".to_owned())),
                }
                section = line.to_ascii_lowercase();
                continue;
            };
            let (name, value) = (name.trim(), value.trim());
            match (section.as_str(), peers.last_mut()) {
                ("[interface]", _) => match name.to_ascii_lowercase().as_str() {
                    "privatekey" => private_key = Some(key(name, value).map_err(at)?.into()),
                    "address" => addresses.extend(networks(name, value).map_err(at)?),
                    "listenport" => port = number_of(name, value, 0..=u16::MAX).map_err(at)?,
                    "mtu" => mtu = number_of(name, value, MTUS).map_err(at)?,
                    "fwmark" => mark = mark_of(value).map_err(at)?,
                    "dns" => note(at("DNS is ignored: set the resolvers by hand".to_owned())),
                    "saveconfig" => {
                        note(at("SaveConfig is ignored: no file is written".to_owned()))
                    }
                    "table" if value == "off" => {}
                    "preup" | "postup" | "predown" | "postdown" if value.is_empty() => {}
                    other => return Err(at(refused(other))),
                },
                ("[peer]", Some((_, peer))) => {
                    read_peer(peer, name, value, &mut |said| note(at(said))).map_err(at)?;
                }
                _ => return Err(at("a setting before [Interface]".to_owned())),
            }
        }
        if let Some((line, _)) =
            peers.iter().find(|(_, peer)| *peer.public_key.as_bytes() == NO_KEY)
        {
            return Err(format!("line {line}: this [Peer] has no PublicKey"));
        }
        let private_key = private_key.ok_or("no PrivateKey in [Interface]")?;
        let peers = merged(peers.into_iter().map(|(_, peer)| peer));
        Ok(Self { private_key, addresses, port, mtu, mark, peers })
    }
}

/// As for `wg`, a [Peer] with the key of an earlier one replaces what it sets, and always AllowedIPs and
/// PersistentKeepalive.
fn merged(all: impl Iterator<Item = Peer>) -> Vec<Peer> {
    let mut peers = LinkedHashMap::<_, Peer, RandomState>::default();
    for mut peer in all {
        let key = peer.public_key.to_bytes();
        if let Some(earlier) = peers.remove(&key) {
            peer.endpoint = peer.endpoint.or(earlier.endpoint);
            peer.preshared_key = peer.preshared_key.or(earlier.preshared_key);
        }
        peers.insert(key, peer);
    }
    peers.into_iter().map(|(_, peer)| peer).collect()
}

/// Why a name of [Interface], in lower case, ends the program.
fn refused(name: &str) -> String {
    let why = match name {
        "preup" | "postup" | "predown" | "postdown" => {
            "PreUp, PostUp, PreDown and PostDown are refused: this program runs no commands"
        }
        "table" => "Table is refused, except off: this program adds no routes",
        _ => "not a name of [Interface]: PrivateKey, Address, ListenPort, MTU, FwMark",
    };
    why.to_owned()
}

fn read_peer(
    peer: &mut Peer,
    name: &str,
    value: &str,
    note: &mut dyn FnMut(String),
) -> Result<(), String> {
    match name.to_ascii_lowercase().as_str() {
        "publickey" => peer.public_key = key(name, value)?.into(),
        "presharedkey" => peer.preshared_key = Some(key(name, value)?),
        "allowedips" => peer.allowed_ips.extend(networks(name, value)?),
        "endpoint" => peer.endpoint = Some(endpoint(value, note)?),
        "persistentkeepalive" if value.eq_ignore_ascii_case("off") => peer.keepalive = None,
        "persistentkeepalive" => {
            peer.keepalive = Some(number_of(name, value, 0..=u16::MAX)?).filter(|&s| s != 0);
        }
        _ => {
            let known = "PublicKey, PresharedKey, AllowedIPs, Endpoint, PersistentKeepalive";
            return Err(format!("not a name of [Peer]: {known}"));
        }
    }
    Ok(())
}

/// Decodes a key.
fn key(name: &str, value: &str) -> Result<[u8; 32], String> {
    let bytes = STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| {
        format!("{name} is not a key: 44 characters of base64, as `wg genkey` prints them")
    })
}

fn number_of(name: &str, value: &str, range: RangeInclusive<u16>) -> Result<u16, String> {
    let (min, max) = (range.start(), range.end());
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{name} is not a number from {min} to {max}"))
}

fn mark_of(value: &str) -> Result<u32, String> {
    let mark = match value.strip_prefix("0x") {
        _ if value.eq_ignore_ascii_case("off") => Ok(0),
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
        None => value.parse(),
    };
    mark.map_err(|_| "FwMark is not a number of 32 bits, as in 0xca6c, or off".to_owned())
}

fn networks(name: &str, value: &str) -> Result<Vec<IpNetwork>, String> {
    let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parse = |part: &str| part.parse().ok();
    let form = "10.0.0.1/24 or fd00::1/64";
    parts.map(parse).collect::<Option<_>>().ok_or_else(|| format!("{name} is not as in {form}"))
}

/// Looks the address up, and waits while the resolver says that it may know the name later.
fn endpoint(value: &str, note: &mut dyn FnMut(String)) -> Result<SocketAddr, String> {
    let parts = value.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let Some((host, port)) = parts else {
        let forms =
            "192.0.2.1:51820, [2001:db8::1]:51820, [fe80::1%eth0]:51820, a.example.org:51820";
        return Err(format!("Endpoint is not as in {forms}"));
    };
    // The system's resolver knows zones by name.
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let (mut tries, mut pause) = (1, Duration::from_secs(1));
    loop {
        match (host, port).to_socket_addrs() {
            Ok(mut found) => return found.next().ok_or("Endpoint has no address".to_owned()),
            // EAI_AGAIN, which std has only as glibc's and musl's text.
            Err(error)
                if tries < LOOKUPS
                    && ["Temporary", "Try again"]
                        .iter()
                        .any(|text| error.to_string().contains(text)) =>
            {
                note(format!("Endpoint does not resolve yet; next try in {pause:.1?}"));
                thread::sleep(pause);
                (tries, pause) = (tries + 1, pause * 6 / 5);
            }
            Err(error) => return Err(format!("Endpoint: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";

    fn parse(text: &str) -> Result<Config, String> {
        let text = text.replace("KEY", KEY).replace("OTHER", &STANDARD.encode([7; 32]));
        Config::parse(&text, &mut |_| {})
    }

    #[test]
    fn every_name_has_its_meaning() {
        let config = parse(
            "# a node\n[Interface]\nPrivateKey=KEY\nFwMark = 0xca6c\nAddress = 10.0.0.1/24, fd00::1/64 # two\nListenPort = 51820\n\
             mtu = 1380\n\n[Peer]\nPublicKey = KEY\nPresharedKey = KEY\nAllowedIPs = 10.0.0.2/32\n\
             AllowedIPs = fd00::/64, 192.0.2.0/24\nEndpoint = [2001:db8::2]:7\nPersistentKeepalive = 25\n\
             [Peer]\nPublicKey = OTHER\nPersistentKeepalive = off\n",
        )
        .expect("it is right");
        assert_eq!((config.port, config.mtu, config.mark), (51820, 1380, 0xca6c));
        assert_eq!(config.peers.len(), 2);
        assert_eq!(config.private_key.to_bytes(), key("", KEY).unwrap());
        assert_eq!(config.addresses[1], "fd00::1/64".parse().unwrap());
        let peer = &config.peers[0];
        assert_eq!(peer.public_key.to_bytes(), key("", KEY).unwrap());
        assert_eq!(peer.preshared_key, Some(key("", KEY).unwrap()));
        assert_eq!(peer.allowed_ips.len(), 3);
        assert_eq!(peer.endpoint, Some("[2001:db8::2]:7".parse().unwrap()));
        assert_eq!((peer.keepalive, config.peers[1].keepalive), (Some(25), None));
        assert_eq!(config.peers[1].endpoint, None);
    }

    #[test]
    fn what_is_left_out_has_wg_quicks_value() {
        let config =
            parse("[Interface]\nPrivateKey = KEY\n[Peer]\nPublicKey = KEY").expect("it is right");
        assert_eq!((config.port, config.mtu, config.addresses.len()), (0, 1420, 0));
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, expected) in [
            ("Address = 10.0.0.1/24", "line 1: a setting before [Interface]"),
            (
                "[Interface]\nPostUp = reboot",
                "line 2: PreUp, PostUp, PreDown and PostDown are refused",
            ),
            ("[Interface]\nTable = 7", "line 2: Table is refused"),
            ("[Interface]\nAddress = 10.0.0/24", "line 2: Address is not as in "),
            (
                "[Interface]\nListenPort = 65536",
                "line 2: ListenPort is not a number from 0 to 65535",
            ),
            ("[Interface]\nFwMark = 0x1ffffffff", "line 2: FwMark is not a number of 32 bits"),
            ("[Interface]\nhello", "line 2: neither a section nor NAME = VALUE"),
            ("[Interface]\nJc = 4", "line 2: not a name of [Interface]: PrivateKey, "),
            ("[Peer]\nEndpoint = 192.0.2.1", "line 2: Endpoint is not as in "),
            ("[Peer]\nEndpoint = [fe80::1%nowhere]:1", "line 2: Endpoint: "),
            ("[Peer]\nPublicKeys = KEY", "line 2: not a name of [Peer]: PublicKey, "),
            ("[Interface]\n[Peer]\nPublicKey = KEY", "no PrivateKey in [Interface]"),
            ("[Interface]\nPrivateKey = KEY\n[Peer]", "line 3: this [Peer] has no PublicKey"),
            ("[Interface]\nMTU = 100", "line 2: MTU is not a number from 576 to 9000"),
        ] {
            let said = parse(text).err().unwrap_or_else(|| panic!("no error: {text}"));
            assert!(said.starts_with(expected), "{text:?} gives {said:?}");
        }
    }

    #[test]
    fn no_message_repeats_a_key_however_its_line_is_wrong() {
        let short = KEY.trim_end_matches('=');
        let values =
            [short, &KEY[1..], &format!("x{KEY}"), &format!("{KEY}=="), &format!("{KEY} {KEY}")];
        let mut lines = Vec::new();
        for value in values.iter().copied().chain([KEY]) {
            let names = [
                "PrivateKey",
                "PublicKey",
                "PresharedKey",
                "ListenPort",
                "MTU",
                "FwMark",
                "Address",
            ];
            let others = [
                "AllowedIPs",
                "Endpoint",
                "PersistentKeepalive",
                "DNS",
                "SaveConfig",
                "Table",
                "PostUp",
                "Key",
            ];
            for name in names.into_iter().chain(others) {
                lines.extend(
                    ["=", " = ", " ", ": ", " == ", "", "\t"]
                        .map(|sign| format!("{name}{sign}{value}")),
                );
            }
            lines.extend([
                value.to_owned(),
                format!("[{value}]"),
                format!("= {value}"),
                format!("Endpoint = {value}:7"),
                format!("Endpoint = [{value}]:7"),
            ]);
        }
        for section in ["", "[Interface]\n", "[Peer]\n", "[Interface] "] {
            for line in &lines {
                let mut said = String::new();
                let result =
                    Config::parse(&format!("{section}{line}\n"), &mut |note| said += &note);
                said.extend(result.err());
                let part = |at| said.contains(&KEY[at..at + 6]);
                assert!(!(0..KEY.len() - 6).any(part), "{section}{line}: {said}");
            }
        }
    }

    #[test]
    fn a_peer_that_comes_twice_is_one_as_for_wg() {
        let config = parse(
            "[Interface]\nPrivateKey = KEY\nDNS = 10.0.0.1\nSaveConfig = true\n[Peer]\nPublicKey = KEY\n\
             Endpoint = 192.0.2.1:7\nAllowedIPs = 10.0.0.0/8\nPersistentKeepalive = 25\n\
             [Peer]\nPublicKey = KEY\nAllowedIPs = 10.1.0.0/16\n",
        );
        let peers = config.expect("it is right").peers;
        assert_eq!((peers.len(), peers[0].keepalive), (1, None));
        assert_eq!(peers[0].endpoint, Some("192.0.2.1:7".parse().unwrap()));
        assert_eq!(peers[0].allowed_ips, ["10.1.0.0/16".parse().unwrap()]);
        let none = parse("[Interface]\nPrivateKey = KEY\n").expect("wg takes it without peers");
        assert!(none.peers.is_empty());
    }

    /// Each form begins with `=== NAME: OUTCOME`, where the outcome counts addresses and peers, or begins an error.
    #[test]
    fn files_of_providers_and_tools_are_read_or_refused() {
        let forms: Vec<_> = include_str!("../tests/forms.conf").split("\n=== ").skip(1).collect();
        assert!(forms.len() >= 20);
        for form in forms {
            let (title, text) = form.split_once('\n').expect("a title");
            let (name, expected) = title.split_once(": ").expect("an outcome");
            let outcome = match parse(text) {
                Ok(Config { addresses, peers, .. }) => {
                    format!("addresses {}, peers {}", addresses.len(), peers.len())
                }
                Err(error) => error,
            };
            assert!(outcome.starts_with(expected), "{name}: {outcome}");
        }
    }
}

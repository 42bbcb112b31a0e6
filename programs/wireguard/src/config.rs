//! The configuration file: what of wg-quick(8)'s form a tunnel needs.
//!
//! No message repeats text of the file: messages end up in logs, and with one slip of the hand any line holds a key.

use std::ops::RangeInclusive;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use gotatun::device::Peer;
use gotatun::x25519::{PublicKey, StaticSecret};
use ipnetwork::IpNetwork;

/// The MTU that wg-quick gives a device on a path of 1,500 bytes.
const MTU: u16 = 1420;
const MTUS: RangeInclusive<u16> = 576..=9000;

pub struct Config {
    pub private_key: StaticSecret,
    /// At most one of each family.
    pub addresses: Vec<IpNetwork>,
    pub port: u16,
    pub mtu: u16,
    pub peers: Vec<Peer>,
}

impl Config {
    /// Reads the text of a file. Errors name their line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut private_key, mut addresses, mut port, mut mtu) = (None, Vec::new(), 0, MTU);
        let (mut section, mut peers) = (String::new(), Vec::<Peer>::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = |said: String| format!("line {number}: {said}");
            let Some((name, value)) = line.split_once('=') else {
                match line {
                    "" => continue,
                    "[Interface]" => {}
                    "[Peer]" => peers.push(Peer::new(PublicKey::from([0; 32]))),
                    _ => return Err(at("neither a section nor NAME = VALUE".to_owned())),
                }
                section = line.to_owned();
                continue;
            };
            let (name, value) = (name.trim(), value.trim());
            match (&*section, name, peers.last_mut()) {
                ("[Interface]", "PrivateKey", _) => {
                    private_key = Some(key(name, value).map_err(at)?.into());
                }
                ("[Interface]", "Address", _) => addresses = networks(name, value).map_err(at)?,
                ("[Interface]", "ListenPort", _) => {
                    port = number_of(name, value, 0..=u16::MAX).map_err(at)?;
                }
                ("[Interface]", "MTU", _) => mtu = number_of(name, value, MTUS).map_err(at)?,
                ("[Peer]", "PublicKey", Some(peer)) => {
                    peer.public_key = key(name, value).map_err(at)?.into();
                }
                ("[Peer]", "PresharedKey", Some(peer)) => {
                    peer.preshared_key = Some(key(name, value).map_err(at)?);
                }
                ("[Peer]", "AllowedIPs", Some(peer)) => {
                    peer.allowed_ips = networks(name, value).map_err(at)?;
                }
                ("[Peer]", "Endpoint", Some(peer)) => {
                    let wrong = |_| at("Endpoint is not as in 192.0.2.1:51820".to_owned());
                    peer.endpoint = Some(value.parse().map_err(wrong)?);
                }
                _ => return Err(at("not a setting of this program, see --help".to_owned())),
            }
        }
        if peers.is_empty() || peers.iter().any(|peer| *peer.public_key.as_bytes() == [0; 32]) {
            return Err("no [Peer], or one without PublicKey".to_owned());
        }
        if addresses.len() > 2 || addresses.iter().filter(|network| network.is_ipv4()).count() > 1 {
            return Err("more than one Address of a family".to_owned());
        }
        let private_key = private_key.ok_or("no PrivateKey in [Interface]")?;
        Ok(Self { private_key, addresses, port, mtu, peers })
    }
}

/// Decodes a key.
fn key(name: &str, value: &str) -> Result<[u8; 32], String> {
    let bytes = STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| format!("{name} is not a key: 44 characters, as `wg genkey` prints them"))
}

fn number_of(name: &str, value: &str, range: RangeInclusive<u16>) -> Result<u16, String> {
    let (min, max) = (range.start(), range.end());
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{name} is not a number from {min} to {max}"))
}

fn networks<T: FromIterator<IpNetwork>>(name: &str, value: &str) -> Result<T, String> {
    let all = value.split(',').map(|part| part.trim().parse().ok()).collect::<Option<_>>();
    all.ok_or_else(|| format!("{name} is not as in 10.0.0.1/24, fd00::1/64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(&text.replace("KEY", KEY))
    }

    #[test]
    fn every_name_has_its_meaning() {
        let config = parse(
            "# a node\n[Interface]\nPrivateKey=KEY\nAddress = 10.0.0.1/24, fd00::1/64 # two\nListenPort = 51820\n\
             MTU = 1380\n\n[Peer]\nPublicKey = KEY\nPresharedKey = KEY\nAllowedIPs = 10.0.0.2/32, fd00::/64\n\
             Endpoint = [2001:db8::2]:7\n[Peer]\nPublicKey = KEY\n",
        )
        .expect("it is right");
        assert_eq!((config.port, config.mtu, config.peers.len()), (51820, 1380, 2));
        assert_eq!(config.private_key.to_bytes(), key("", KEY).unwrap());
        assert_eq!(config.addresses[1], "fd00::1/64".parse().unwrap());
        let peer = &config.peers[0];
        assert_eq!(peer.public_key.to_bytes(), key("", KEY).unwrap());
        assert_eq!(peer.preshared_key, Some(key("", KEY).unwrap()));
        assert_eq!(peer.allowed_ips.len(), 2);
        assert_eq!(peer.endpoint, Some("[2001:db8::2]:7".parse().unwrap()));
        assert_eq!(config.peers[1].endpoint, None);
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, expected) in [
            ("Address = 10.0.0.1/24", "line 1: not a setting of this program"),
            ("[Interface]\nPostUp = reboot", "line 2: not a setting of this program"),
            ("[Interface]\nAddress = 10.0.0/24", "line 2: Address is not as in "),
            (
                "[Interface]\nListenPort = 65536",
                "line 2: ListenPort is not a number from 0 to 65535",
            ),
            ("[Interface]\nMTU = 100", "line 2: MTU is not a number from 576 to 9000"),
            ("[Interface]\nhello", "line 2: neither a section nor NAME = VALUE"),
            ("[Peer]\nEndpoint = 192.0.2.1", "line 2: Endpoint is not as in "),
            ("[Interface]\n[Peer]\nPublicKey = KEY", "no PrivateKey in [Interface]"),
            ("[Interface]\nPrivateKey = KEY\n[Peer]", "no [Peer], or one without PublicKey"),
            (
                "[Interface]\nAddress = 10.0.0.1/8, 10.0.0.2/8\n[Peer]\nPublicKey = KEY",
                "more than one",
            ),
        ] {
            let said = parse(text).err().unwrap_or_else(|| panic!("no error: {text}"));
            assert!(said.starts_with(expected), "{text:?} gives {said:?}");
        }
    }

    #[test]
    fn no_message_repeats_a_key_however_its_line_is_wrong() {
        let short = KEY.trim_end_matches('=');
        let values = [short, &KEY[1..], &format!("x{KEY}"), &format!("{KEY} {KEY}"), KEY];
        let names =
            ["PrivateKey", "PublicKey", "ListenPort", "MTU", "Address", "Endpoint", "Key", ""];
        for section in ["", "[Interface]\n", "[Peer]\n", "[Interface] "] {
            for (value, name) in values.iter().flat_map(|value| names.map(|name| (value, name))) {
                for sign in ["=", " = ", " ", ": ", " == ", ""] {
                    let line = format!("{section}{name}{sign}{value}\n");
                    let said = Config::parse(&line).err().unwrap_or_default();
                    let part = |at| said.contains(&KEY[at..at + 6]);
                    assert!(!(0..KEY.len() - 6).any(part), "{line}: {said}");
                }
            }
        }
    }
}

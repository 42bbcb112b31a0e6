//! The configuration file, in the form of wg-quick(8).

use std::net::{SocketAddr, ToSocketAddrs};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use gotatun::device::Peer;
use gotatun::x25519::{PublicKey, StaticSecret};
use ipnetwork::IpNetwork;

/// The MTU that wg-quick gives a device on a path of 1,500 bytes.
const MTU: u16 = 1420;

pub struct Config {
    pub private_key: StaticSecret,
    pub addresses: Vec<IpNetwork>,
    pub port: u16,
    pub mtu: u16,
    pub peers: Vec<Peer>,
}

/// The key of a [Peer] whose PublicKey has not been read.
const NO_KEY: [u8; 32] = [0; 32];

impl Config {
    /// Reads the text of a file. An error names its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut private_key, mut addresses, mut port, mut mtu) = (None, Vec::new(), 0, MTU);
        let (mut peers, mut section) = (Vec::<(usize, Peer)>::new(), String::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = |error| format!("line {number}: {error}");
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
                    "listenport" => port = number_of(name, value).map_err(at)?,
                    "mtu" => mtu = number_of(name, value).map_err(at)?,
                    _ => return Err(at(unknown(name, "PrivateKey, Address, ListenPort and MTU"))),
                },
                ("[peer]", Some((_, peer))) => read_peer(peer, name, value).map_err(at)?,
                _ => return Err(at(format!("{name} stands before [Interface]"))),
            }
        }
        if !(576..=9000).contains(&mtu) {
            return Err(format!("MTU {mtu} is not from 576 to 9000"));
        }
        if addresses.iter().filter(|address| address.is_ipv4()).count() > 1 {
            return Err("one IPv4 Address at most: add others by `ip address add`".to_owned());
        }
        if let Some((line, _)) =
            peers.iter().find(|(_, peer)| *peer.public_key.as_bytes() == NO_KEY)
        {
            return Err(format!("line {line}: this [Peer] has no PublicKey"));
        }
        let peers: Vec<_> = peers.into_iter().map(|(_, peer)| peer).collect();
        let private_key = private_key.ok_or("no PrivateKey in [Interface]")?;
        if peers.is_empty() {
            Err("no [Peer]".to_owned())
        } else {
            Ok(Self { private_key, addresses, port, mtu, peers })
        }
    }
}

const PEER_NAMES: &str = "PublicKey, PresharedKey, AllowedIPs, Endpoint and PersistentKeepalive";

fn read_peer(peer: &mut Peer, name: &str, value: &str) -> Result<(), String> {
    match name.to_ascii_lowercase().as_str() {
        "publickey" => peer.public_key = key(name, value)?.into(),
        "presharedkey" => peer.preshared_key = Some(key(name, value)?),
        "allowedips" => peer.allowed_ips.extend(networks(name, value)?),
        "endpoint" => peer.endpoint = Some(endpoint(value)?),
        "persistentkeepalive" if value == "off" => peer.keepalive = None,
        "persistentkeepalive" => peer.keepalive = Some(number_of(name, value)?).filter(|&s| s != 0),
        _ => return Err(unknown(name, PEER_NAMES)),
    }
    Ok(())
}

fn unknown(name: &str, known: &str) -> String {
    format!("{name} is not supported here; {known} are")
}

/// Decodes a key. The error does not contain it, since it may be secret.
fn key(name: &str, value: &str) -> Result<[u8; 32], String> {
    let bytes = STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| {
        format!("{name} is not a key: 44 characters of base64, as `wg genkey` prints them")
    })
}

/// A public key in the form of the file.
pub fn encode(key: PublicKey) -> String {
    STANDARD.encode(key)
}

fn number_of(name: &str, value: &str) -> Result<u16, String> {
    value.parse().map_err(|_| format!("{name} is not a number from 0 to 65535: {value}"))
}

fn networks(name: &str, value: &str) -> Result<Vec<IpNetwork>, String> {
    let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parse = |part: &str| {
        let form = "as in 10.0.0.1/24 or fd00::1/64";
        part.parse().map_err(|_| format!("{name} is not an address, {form}: {part}"))
    };
    parts.map(parse).collect()
}

fn endpoint(value: &str) -> Result<SocketAddr, String> {
    let form = "as in 192.0.2.1:51820, [2001:db8::1]:51820 or vpn.example.org:51820";
    let mut found =
        value.to_socket_addrs().map_err(|error| format!("Endpoint {value}: {error}; {form}"))?;
    found.next().ok_or_else(|| format!("Endpoint {value} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(&text.replace("KEY", KEY))
    }

    fn error(text: &str) -> String {
        parse(text).err().unwrap_or_else(|| panic!("no error: {text}"))
    }

    #[test]
    fn every_name_has_its_meaning() {
        let config = parse(
            "# a node\n[Interface]\nPrivateKey=KEY\nAddress = 10.0.0.1/24, fd00::1/64 # two\nListenPort = 51820\n\
             mtu = 1380\n\n[Peer]\nPublicKey = KEY\nPresharedKey = KEY\nAllowedIPs = 10.0.0.2/32\n\
             AllowedIPs = fd00::/64, 192.0.2.0/24\nEndpoint = [2001:db8::2]:7\nPersistentKeepalive = 25\n\
             [Peer]\nPublicKey = KEY\nPersistentKeepalive = off\n",
        )
        .expect("it is right");
        assert_eq!((config.port, config.mtu, config.peers.len()), (51820, 1380, 2));
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
    fn an_error_names_its_line_and_no_key() {
        let secret = format!("[Interface]\nPrivateKey = x{KEY}");
        let said = Config::parse(&secret).err().expect("a bad key");
        assert!(
            said.starts_with("line 2: PrivateKey is not a key: ") && !said.contains(KEY),
            "{said}"
        );
        for (text, expected) in [
            ("Address = 10.0.0.1/24", "line 1: Address stands before [Interface]"),
            ("[Interface]\nPostUp = reboot", "line 2: PostUp is not supported here; PrivateKey, "),
            ("[Interface]\nAddress = 10.0.0/24", "line 2: Address is not an address, "),
            (
                "[Interface]\nListenPort = 65536",
                "line 2: ListenPort is not a number from 0 to 65535: 65536",
            ),
            ("[Interface]\nhello", "line 2: neither a section nor NAME = VALUE"),
            ("[Peer]\nEndpoint = 192.0.2.1", "line 2: Endpoint 192.0.2.1: "),
            ("[Peer]\nPublicKeys = KEY", "line 2: PublicKeys is not supported here; PublicKey, "),
            ("[Interface]\nPrivateKey = KEY", "no [Peer]"),
            ("[Interface]\n[Peer]\nPublicKey = KEY", "no PrivateKey in [Interface]"),
            ("[Interface]\nPrivateKey = KEY\n[Peer]", "line 3: this [Peer] has no PublicKey"),
            ("[Interface]\nMTU = 100", "MTU 100 is not from 576 to 9000"),
            ("[Interface]\nAddress = 10.0.0.1, 10.0.0.2", "one IPv4 Address at most: "),
        ] {
            let said = error(text);
            assert!(said.starts_with(expected), "{text:?} gives {said:?}");
        }
    }
}

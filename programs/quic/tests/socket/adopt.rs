//! What the README and the migration page show, as a program that adopts the feature has it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{Endpoint, EndpointConfig, ServerConfig};

use crate::kit::run;

fn server(config: ServerConfig, addr: SocketAddr) -> io::Result<Endpoint> {
    let runtime = Arc::new(mmsg::quinn::TokioRuntime::default());
    let socket = UdpSocket::bind(addr)?;
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
    Ok(endpoint)
}

#[test]
fn the_documented_lines_are_these() {
    run(async {
        let made = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into());
        let addr = "127.0.0.1:0".parse().expect("an address");
        server(config.expect("a key"), addr).expect("an endpoint");
    });
    let lines = include_str!("adopt.rs").lines().skip_while(|line| !line.starts_with("fn server"));
    let added: String = lines.skip(1).take(3).map(|line| format!("+{}\n", line.trim())).collect();
    for page in
        [include_str!("../../../../README.md"), include_str!("../../../../docs/guide/migration.md")]
    {
        assert!(page.contains(&added), "{added}");
    }
}

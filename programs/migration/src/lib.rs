//! The programs of the guide's page "migration", each before and after, and the code they share.
//!
//! ```text
//! cargo run --release -p migration --bin std_after
//! echo hello | socat -t1 - UDP:127.0.0.1:7777
//! ```
//!
//! socat prints "hello". The forwarders pass DNS questions from 127.0.0.1:5353 to the server in their first argument
//! (default: 127.0.0.1:53). Their IDs can be guessed, so anybody could forge an answer: `examples/dns_forwarder.rs` is one
//! for the Internet.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;

use hickory_proto::op::Message;
use quinn::ServerConfig;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;

/// The unanswered questions, by the ID under which they went to the upstream server.
#[derive(Default)]
pub struct Pending {
    questions: HashMap<u16, (SocketAddr, u16)>,
    next: u16,
}

impl Pending {
    /// Rewrites a client's question for the upstream server. `None` if it is not a DNS message.
    pub fn ask(&mut self, data: &[u8], client: SocketAddr) -> Option<Vec<u8>> {
        let mut message = Message::from_vec(data).ok()?;
        self.next = self.next.wrapping_add(1);
        self.questions.insert(self.next, (client, message.id()));
        message.set_id(self.next);
        message.to_vec().ok()
    }

    /// Gives an answer the ID of the client's question. `None` if there was no such question.
    pub fn answer(&mut self, data: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        let mut message = Message::from_vec(data).ok()?;
        let (client, id) = self.questions.remove(&message.id())?;
        message.set_id(id);
        Some((client, message.to_vec().ok()?))
    }
}

/// The configuration of a QUIC server with a self-signed certificate.
pub fn quic() -> Result<ServerConfig, Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok(ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?)
}

//! The certificate of every server, so that client and server need no file to agree.

use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};

/// The name in the certificate. Clients expect it whatever address they connect to.
pub const NAME: &str = "localhost";

/// The certificate and its key, which everybody has: encryption costs what it costs elsewhere, and proves nothing.
pub fn identity() -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), rcgen::Error> {
    // An Ed25519 key (RFC 8410, section 7): a fixed beginning, and 32 bytes of any value.
    let mut der = b"\x30\x2e\x02\x01\0\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    der.extend([7; 32]);
    let key = PrivatePkcs8KeyDer::from(der);
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ED25519)?;
    let made = CertificateParams::new([NAME.to_owned()])?.self_signed(&pair)?;
    Ok((made.der().clone(), key))
}

//! How the two ends know each other: by a certificate that the server makes when it starts, and a
//! file that the client gets it from.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, ServerConfig};

use crate::Failure;

/// The name in the certificate. The client asks for it whatever address it connects to: it trusts
/// this one certificate and no other.
pub const NAME: &str = "localhost";

/// A server's configuration with a certificate of its own, which is written to `file`. Its key is
/// nowhere but in memory.
pub fn make(file: &Path) -> Result<ServerConfig, Failure> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    fs::write(file, made.cert.pem())
        .map_err(|error| format!("cannot write the certificate to {}: {error}", file.display()))?;
    Ok(config)
}

/// A client's configuration that trusts the certificate in `file`.
pub fn trust(file: &Path) -> Result<ClientConfig, Failure> {
    let certificate = CertificateDer::from_pem_file(file)
        .map_err(|error| format!("no certificate in {}: {error}", file.display()))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    Ok(ClientConfig::with_root_certificates(Arc::new(roots))?)
}

use quinn::rustls::{RootCertStore, pki_types::PrivatePkcs8KeyDer};
use std::{error::Error, net::UdpSocket, sync::Arc, time::Duration};

const BYTES: usize = 3_000_000;

async fn transfer() -> Result<usize, Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = made.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let config = quinn::ServerConfig::with_single_cert(vec![certificate], key.into())?;
    let server = quinn::Endpoint::server(config, ([127, 0, 0, 1], 0).into())?;
    let mut client = quinn::Endpoint::client(([127, 0, 0, 1], 0).into())?;
    client.set_default_client_config(quinn::ClientConfig::with_root_certificates(Arc::new(roots))?);

    let connecting = client.connect(server.local_addr()?, "localhost")?;
    let accepted =
        async { Ok::<_, Box<dyn Error>>(server.accept().await.ok_or("no client")?.await?) };
    let (client, server) = tokio::try_join!(async { Ok(connecting.await?) }, accepted)?;
    let send = async {
        let mut stream = client.open_uni().await?;
        stream.write_all(&vec![7; BYTES]).await?;
        Ok::<_, Box<dyn Error>>(stream.finish()?)
    };
    let receive = async { Ok(server.accept_uni().await?.read_to_end(BYTES).await?.len()) };
    Ok(tokio::try_join!(send, receive)?.1)
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let state = quinn_udp::UdpSocketState::new((&socket).into())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let transfer = async { tokio::time::timeout(Duration::from_secs(60), transfer()).await };
    let bytes = runtime.block_on(transfer)??;
    println!("quinn moved {bytes} bytes, {} segments in a send", state.max_gso_segments());
    if bytes == BYTES { Ok(()) } else { Err("bytes are missing".into()) }
}

use std::error::Error;
use std::net::SocketAddr;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (config, addr) = (migration::quic()?, SocketAddr::from(([127, 0, 0, 1], 4433)));
    let runtime = std::sync::Arc::new(mmsg_quinn::TokioRuntime::default());
    let socket = std::net::UdpSocket::bind(addr)?;
    let endpoint = quinn::Endpoint::new(Default::default(), Some(config), socket, runtime)?;
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connection) = incoming.await else { continue };
        println!("{}: {}", connection.remote_address(), connection.closed().await);
    }
    Ok(())
}

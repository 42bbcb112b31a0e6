use std::error::Error;
use std::net::SocketAddr;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (config, addr) = (migration::quic()?, SocketAddr::from(([127, 0, 0, 1], 4433)));
    let endpoint = quinn::Endpoint::server(config, addr)?;
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connection) = incoming.await else { continue };
        println!("{}: {}", connection.remote_address(), connection.closed().await);
    }
    Ok(())
}

use migration::Pending;
use std::io;
use tokio::net::UdpSocket;

async fn forward(clients: UdpSocket, upstream: UdpSocket) -> io::Result<()> {
    let mut pending = Pending::default();
    let (mut queries, mut answers) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            received = clients.recv_from(&mut queries) => {
                let (len, from) = received?;
                let Some(query) = pending.ask(&queries[..len], from) else { continue };
                upstream.send(&query).await?;
            }
            received = upstream.recv(&mut answers) => {
                let len = received?;
                let Some((client, data)) = pending.answer(&answers[..len]) else { continue };
                clients.send_to(&data, client).await?;
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let upstream = UdpSocket::bind("0.0.0.0:0").await?;
    upstream.connect(std::env::args().nth(1).unwrap_or("127.0.0.1:53".to_owned())).await?;
    forward(UdpSocket::bind("127.0.0.1:5353").await?, upstream).await
}

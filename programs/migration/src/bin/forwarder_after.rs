use migration::Pending;
use mmsg::{RecvBatch, SendMsg, prelude::*};
use std::io;
use tokio::net::UdpSocket;

async fn forward(clients: UdpSocket, upstream: UdpSocket) -> io::Result<()> {
    let mut pending = Pending::default();
    let (mut queries, mut answers) = (RecvBatch::new(64, 4096), RecvBatch::new(64, 4096));
    loop {
        tokio::select! {
            received = clients.recv_into(&mut queries) => {
                if let Err(error) = received { eprintln!("clients: {error}") }
                let asked: Vec<_> = queries.iter().filter_map(|d| pending.ask(d.data(), d.addr()?)).collect();
                upstream.send_each(asked.iter().map(|data| SendMsg::new(data)), |_, e| eprintln!("{e}")).await?;
            }
            received = upstream.recv_into(&mut answers) => {
                if let Err(error) = received { eprintln!("upstream: {error}") }
                let answered: Vec<_> = answers.iter().filter_map(|d| pending.answer(d.data())).collect();
                clients.send_each(answered.iter().map(|(to, data)| SendMsg::to(*to, data)), |_, e| eprintln!("{e}")).await?;
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

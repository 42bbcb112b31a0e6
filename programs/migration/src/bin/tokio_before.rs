use std::io;
use tokio::net::UdpSocket;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:7777").await?;
    let mut buffer = [0; 65_535];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await?;
        socket.send_to(&buffer[..len], from).await?;
    }
}

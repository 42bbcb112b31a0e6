//! DNS over TCP (RFC 7766), which clients use after a truncated answer.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::places::{Active, Places};
use crate::reply::MAX;
use crate::responder::Responder;

/// Time limit for a client's next query, and for an answer.
const IDLE: Duration = Duration::from_secs(10);
/// One network gets at most an eighth of the places.
const SHARE: usize = 8;

/// Serves a limited number of connections.
pub async fn serve(listener: TcpListener, responder: Arc<Responder>, connections: usize) {
    let places = Places::new(connections, connections.div_ceil(SHARE));
    let each = |stream, from, active| {
        let responder = Arc::clone(&responder);
        // On any error the connection is closed.
        async move { drop(connection(stream, from, &active, &responder).await) }
    };
    places.run(listener, each).await;
}

/// Answers the queries of a connection in order.
async fn connection(
    mut stream: TcpStream,
    from: IpAddr,
    active: &Active,
    responder: &Responder,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.split();
    let mut read = BufReader::with_capacity(2048, read);
    let (mut query, mut out) = (Vec::new(), vec![0; 2 + MAX]);
    loop {
        // One deadline for the whole query, so that sending it byte by byte gains nothing.
        timeout(IDLE, async {
            let len = read.read_u16().await?;
            query.resize(len.into(), 0);
            read.read_exact(&mut query).await
        })
        .await??;
        // A client that sends without a pause must not hold up the others, even if nothing is answered.
        tokio::task::yield_now().await;
        let Some(len) = responder.answer_tcp(&query, from, &mut out[2..]) else { continue };
        active.touch();
        out[..2].copy_from_slice(&(len as u16).to_be_bytes());
        timeout(IDLE, write.write_all(&out[..2 + len])).await??;
    }
}

//! The server: sends as many bytes as it is asked for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quinn::{Connecting, ConnectionError, RecvStream, SendStream};

use crate::peer::Peer;
use crate::{Failure, SocketKind, say, stopped};

/// How long the server waits for clients to learn that it ends.
const FAREWELL: Duration = Duration::from_secs(2);
/// What it sends, again and again. All streams share it.
static CHUNK: [u8; 1 << 20] = [0; 1 << 20];

/// Counts of connections and requests.
#[derive(Default)]
struct Figures {
    connections: AtomicU64,
    /// Connections that failed, or that ended without the client closing them.
    broken: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    /// Requests that were malformed, or whose answer could not be sent completely.
    unfinished: AtomicU64,
}

pub async fn run(
    addr: SocketAddr,
    max_connections: usize,
    kind: SocketKind,
) -> Result<(), Failure> {
    let server = Peer::server(addr, kind)?;
    let mut stop = std::pin::pin!(stopped()?);
    say(format_args!("listening on {}", server.endpoint.local_addr()?));

    let figures = Arc::new(Figures::default());
    loop {
        let incoming = tokio::select! {
            incoming = server.endpoint.accept() => incoming,
            () = &mut stop => break,
        };
        let Some(incoming) = incoming else { break };
        figures.connections.fetch_add(1, Relaxed);
        if server.endpoint.open_connections() >= max_connections {
            figures.broken.fetch_add(1, Relaxed);
            incoming.refuse();
            continue;
        }
        // Accepted here, not in the task, so that the limit counts it at once.
        match incoming.accept() {
            Ok(connecting) => drop(tokio::spawn(serve(connecting, Arc::clone(&figures)))),
            Err(_) => drop(figures.broken.fetch_add(1, Relaxed)),
        }
    }

    server.endpoint.close(0u32.into(), b"the server ends");
    let _ = tokio::time::timeout(FAREWELL, server.endpoint.wait_idle()).await;
    let Figures { connections, broken, requests, bytes, unfinished } = &*figures;
    let [connections, broken, requests, bytes, unfinished] =
        [connections, broken, requests, bytes, unfinished].map(|n| n.load(Relaxed));
    server.say(&format!(
        "connections {connections}, broken {broken}; requests {requests}, bytes {bytes}, unfinished {unfinished}"
    ));
    Ok(())
}

/// Answers all requests of a connection concurrently until the client closes it.
async fn serve(connecting: Connecting, figures: Arc<Figures>) {
    let end = match connecting.await {
        Err(error) => error,
        Ok(connection) => loop {
            let (send, recv) = match connection.accept_bi().await {
                Ok(streams) => streams,
                Err(end) => break end,
            };
            let figures = Arc::clone(&figures);
            tokio::spawn(async move {
                match answer(send, recv, &figures).await {
                    Ok(()) => figures.requests.fetch_add(1, Relaxed),
                    Err(_) => figures.unfinished.fetch_add(1, Relaxed),
                }
            });
        },
    };
    if !matches!(end, ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed) {
        figures.broken.fetch_add(1, Relaxed);
    }
}

/// A request is the number of bytes to send, in 8 bytes (big-endian).
async fn answer(
    mut send: SendStream,
    mut recv: RecvStream,
    figures: &Figures,
) -> Result<(), Failure> {
    let request = recv.read_to_end(8).await?;
    let mut left = u64::from_be_bytes(request[..].try_into()?);
    while left > 0 {
        let part =
            &CHUNK[..usize::try_from(left).map_or(CHUNK.len(), |left| left.min(CHUNK.len()))];
        send.write_chunk(part.into()).await?;
        left -= part.len() as u64;
        figures.bytes.fetch_add(part.len() as u64, Relaxed);
    }
    Ok(send.finish()?)
}

//! The server: serves the files of one folder and nothing else.

use std::fs::File;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quinn::{Connecting, ConnectionError, RecvStream, SendStream};
use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::peer::Peer;
use crate::{Common, Failure, protocol, say};

/// How long the server waits for clients to learn that it ends.
const FAREWELL: Duration = Duration::from_secs(2);
/// Bytes read from a file at once; each stream holds as many (see `peer::STREAMS`). With a sixteenth of this size the
/// server would take half as much time again, because another thread reads each chunk.
const CHUNK: usize = 1 << 20;

/// Counts of connections and requests.
#[derive(Default)]
struct Figures {
    connections: AtomicU64,
    /// Connections that failed, or that ended without the client closing them.
    broken: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    /// Answers that could not be sent completely.
    unfinished: AtomicU64,
}

pub async fn run(
    addr: std::net::SocketAddr,
    root: &Path,
    max_connections: usize,
    common: Common,
) -> Result<(), Failure> {
    let cannot = |error| format!("{}: {error}", root.display());
    let folder: Arc<Path> = root.canonicalize().map_err(cannot)?.into();
    if !folder.is_dir() {
        return Err(cannot(std::io::ErrorKind::NotADirectory.into()).into());
    }
    let server = Peer::server(addr, common)?;
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    ctrlc::set_handler(move || stopped.notify_one())?;
    say(format_args!("listening on {}", server.endpoint.local_addr()?));

    let figures = Arc::new(Figures::default());
    // Limits handshakes with unproven addresses: a forged one keeps its place until a timeout.
    let unproven = Arc::new(Semaphore::new(max_connections / 4));
    loop {
        let incoming = tokio::select! {
            incoming = server.endpoint.accept() => incoming,
            () = stop.notified() => break,
        };
        let Some(incoming) = incoming else { break };
        let is_proven = incoming.remote_address_validated();
        let place = if is_proven { None } else { Arc::clone(&unproven).try_acquire_owned().ok() };
        if place.is_none() && !is_proven {
            // The client must come back with a token, which only reaches the true owner of its address. This takes no
            // memory.
            let _ = incoming.retry();
            continue;
        }
        figures.connections.fetch_add(1, Relaxed);
        if server.endpoint.open_connections() >= max_connections {
            figures.broken.fetch_add(1, Relaxed);
            incoming.refuse();
            continue;
        }
        // Accepted here, not in the task, so that the limit counts it at once.
        match incoming.accept() {
            Ok(connecting) => {
                let (folder, figures) = (Arc::clone(&folder), Arc::clone(&figures));
                tokio::spawn(serve(connecting, place, folder, figures));
            }
            Err(_) => drop(figures.broken.fetch_add(1, Relaxed)),
        }
    }

    server.endpoint.close(0u32.into(), b"the server ends");
    let _ = tokio::time::timeout(FAREWELL, server.endpoint.wait_idle()).await;
    let Figures { connections, broken, files, bytes, refused, unfinished } = &*figures;
    let [connections, broken, files, bytes, refused, unfinished] =
        [connections, broken, files, bytes, refused, unfinished].map(|n| n.load(Relaxed));
    say(format_args!(
        "connections {connections}, broken {broken}; files {files}, bytes {bytes}, refused {refused}, \
         unfinished {unfinished}"
    ));
    server.say_stats();
    Ok(())
}

/// Answers all requests of a connection concurrently until the client closes it.
async fn serve(
    connecting: Connecting,
    place: Option<OwnedSemaphorePermit>,
    folder: Arc<Path>,
    figures: Arc<Figures>,
) {
    let connected = connecting.await;
    drop(place);
    let end = match connected {
        Err(error) => error,
        Ok(connection) => loop {
            let (send, recv) = match connection.accept_bi().await {
                Ok(streams) => streams,
                Err(end) => break end,
            };
            let (folder, figures) = (Arc::clone(&folder), Arc::clone(&figures));
            tokio::spawn(async move {
                if answer(send, recv, folder, &figures).await.is_err() {
                    figures.unfinished.fetch_add(1, Relaxed);
                }
            });
        },
    };
    if !matches!(end, ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed) {
        figures.broken.fetch_add(1, Relaxed);
    }
}

async fn answer(
    mut send: SendStream,
    mut recv: RecvStream,
    folder: Arc<Path>,
    figures: &Figures,
) -> Result<(), Failure> {
    let Some(path) = protocol::requested(&mut recv).await? else {
        return protocol::echo(send, recv).await;
    };
    // Opening a file may block, so it runs on another thread than the connections.
    let found = tokio::task::spawn_blocking(move || open(&folder, &path)).await?;
    let Some((file, len)) = found else {
        figures.refused.fetch_add(1, Relaxed);
        // All failures get the same answer, so that none reveals files outside the folder.
        return protocol::refuse(&mut send, "no such file").await;
    };
    protocol::accept(&mut send, len).await?;
    let mut file = tokio::fs::File::from_std(file);
    file.set_max_buf_size(CHUNK);
    // The file may have grown: sends no more than announced.
    let mut file = file.take(len);
    let mut left = len;
    while left > 0 {
        let mut part = Vec::with_capacity(CHUNK.min(usize::try_from(left)?));
        // The reset tells the client that the file is incomplete: it could not be read, or has shrunk.
        if !matches!(file.read_buf(&mut part).await, Ok(1..)) {
            send.reset(1u32.into())?;
            return Err("cannot read the whole file".into());
        }
        let read = part.len() as u64;
        left -= read;
        send.write_chunk(part.into()).await?;
        figures.bytes.fetch_add(read, Relaxed);
    }
    send.finish()?;
    figures.files.fetch_add(1, Relaxed);
    Ok(())
}

/// Opens a file in `folder`, a canonical path, and returns its length.
fn open(folder: &Path, path: &str) -> Option<(File, u64)> {
    // Rejects ".." and absolute paths.
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    // Rejects links that lead out of the folder.
    let path = folder.join(relative).canonicalize().ok()?;
    // Checked before opening, because opening a pipe waits for a writer.
    if !path.starts_with(folder) || !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let len = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    Some((file, len))
}

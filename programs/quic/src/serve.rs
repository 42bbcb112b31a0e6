//! The server: the files of a folder, and no others.

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
/// Bytes read from a file at once, which every stream has in memory: see `peer::STREAMS`. A sixteenth
/// of it would cost the server half as much time again: each chunk is read by another thread.
const CHUNK: usize = 1 << 20;

/// Counts of connections and requests.
#[derive(Default)]
struct Figures {
    connections: AtomicU64,
    /// Connections that were never made, or did not end by the client's own word.
    broken: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    /// Answers that were not sent to their end.
    unfinished: AtomicU64,
}

pub async fn run(
    addr: std::net::SocketAddr,
    root: &Path,
    most: usize,
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
    // Handshakes of clients whose address may be forged. A forged one takes its place until a timeout.
    let unproven = Arc::new(Semaphore::new(most / 4));
    loop {
        let incoming = tokio::select! {
            incoming = server.endpoint.accept() => incoming,
            () = stop.notified() => break,
        };
        let Some(incoming) = incoming else { break };
        let place = Arc::clone(&unproven).try_acquire_owned().ok();
        if place.is_none() && !incoming.remote_address_validated() {
            // The client comes again with a token, which only the owner of the address has got. That takes no memory.
            let _ = incoming.retry();
            continue;
        }
        figures.connections.fetch_add(1, Relaxed);
        if server.endpoint.open_connections() >= most {
            figures.broken.fetch_add(1, Relaxed);
            incoming.refuse();
            continue;
        }
        // Here and not in the task: from now on it is among the open ones.
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

/// Answers the requests of a connection, all at once, until the client ends it.
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
    // A disk may take its time: not on the thread that the connections are served by.
    let found = tokio::task::spawn_blocking(move || open(&folder, &path)).await?;
    let Some((file, len)) = found else {
        figures.refused.fetch_add(1, Relaxed);
        // Every failure has the same answer, which says nothing about files outside the root.
        return protocol::refuse(&mut send, "no such file").await;
    };
    protocol::accept(&mut send, len).await?;
    let mut file = tokio::fs::File::from_std(file);
    file.set_max_buf_size(CHUNK);
    // No more than was announced, should the file have grown.
    let mut file = file.take(len);
    let mut left = len;
    while left > 0 {
        let mut part = Vec::with_capacity(CHUNK.min(usize::try_from(left)?));
        // By a reset the client knows that the file is incomplete: it could not be read, or has become shorter.
        if !matches!(file.read_buf(&mut part).await, Ok(1..)) {
            send.reset(1u32.into())?;
            return Err("the file cannot be read to its end".into());
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

/// Opens a file in the folder, which is canonical, and returns its length.
fn open(folder: &Path, path: &str) -> Option<(File, u64)> {
    // Names only: no "..", no "/" at the start.
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    // Nor by a link.
    let path = folder.join(relative).canonicalize().ok()?;
    // Before it is opened: the open of a pipe would wait for a writer.
    if !path.starts_with(folder) || !path.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let len = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    Some((file, len))
}

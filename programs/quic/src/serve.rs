//! The server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::{Connecting, Connection, ConnectionError, RecvStream, SendStream};
use tokio::sync::Notify;

use crate::cli::Serve;
use crate::endpoint::Counting;
use crate::files::Root;
use crate::{Failure, protocol, say};

/// How long clients are given to hear that the server ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// What became of those who came.
#[derive(Debug, Default)]
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

pub async fn run(options: &Serve) -> Result<(), Failure> {
    let root =
        Root::new(&options.root).map_err(|error| format!("{}: {error}", options.root.display()))?;
    let server = Counting::server(options.addr, &options.common)?;
    let stop = stop_on_signals()?;
    say(format_args!("listening on {}", server.endpoint.local_addr()?));

    let figures = Arc::new(Figures::default());
    loop {
        let incoming = tokio::select! {
            incoming = server.endpoint.accept() => incoming,
            () = stop.notified() => break,
        };
        let Some(incoming) = incoming else { break };
        figures.connections.fetch_add(1, Ordering::Relaxed);
        if server.endpoint.open_connections() >= usize::from(options.connections) {
            figures.broken.fetch_add(1, Ordering::Relaxed);
            incoming.refuse();
            continue;
        }
        // Here and not in the task: from now on it is among the open ones.
        match incoming.accept() {
            Ok(connecting) => {
                tokio::spawn(connection(connecting, root.clone(), Arc::clone(&figures)));
            }
            Err(_) => drop(figures.broken.fetch_add(1, Ordering::Relaxed)),
        }
    }

    server.endpoint.close(0u32.into(), b"the server ends");
    let _ = tokio::time::timeout(FAREWELL, server.endpoint.wait_idle()).await;
    let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let Figures { connections, broken, files, bytes, refused, unfinished } = &*figures;
    say(format_args!(
        "connections {}, broken {}; files {}, bytes {}, refused {}, unfinished {}",
        get(connections),
        get(broken),
        get(files),
        get(bytes),
        get(refused),
        get(unfinished)
    ));
    server.tell();
    Ok(())
}

fn stop_on_signals() -> Result<Arc<Notify>, Failure> {
    let stop = Arc::new(Notify::new());
    let theirs = Arc::clone(&stop);
    ctrlc::set_handler(move || theirs.notify_one())?;
    Ok(stop)
}

/// Answers the requests of a connection, all at once, until the client ends it.
async fn connection(connecting: Connecting, root: Root, figures: Arc<Figures>) {
    let end = match connecting.await {
        Ok(connection) => requests(connection, root, &figures).await,
        Err(error) => error,
    };
    if !matches!(end, ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed) {
        figures.broken.fetch_add(1, Ordering::Relaxed);
    }
}

async fn requests(connection: Connection, root: Root, figures: &Arc<Figures>) -> ConnectionError {
    loop {
        let (send, recv) = match connection.accept_bi().await {
            Ok(streams) => streams,
            Err(end) => return end,
        };
        let (root, figures) = (root.clone(), Arc::clone(figures));
        tokio::spawn(async move {
            if answer(send, recv, root, &figures).await.is_err() {
                figures.unfinished.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

async fn answer(
    mut send: SendStream,
    mut recv: RecvStream,
    root: Root,
    figures: &Figures,
) -> Result<(), Failure> {
    let path = protocol::requested(&mut recv).await?;
    // A disk may take its time: not on the thread that the connections are served by.
    let mut source = match tokio::task::spawn_blocking(move || root.open(&path)).await? {
        Ok(source) => source,
        Err(why) => {
            figures.refused.fetch_add(1, Ordering::Relaxed);
            return protocol::refuse(&mut send, why).await;
        }
    };
    protocol::accept(&mut send, source.len).await?;
    let mut part = Vec::new();
    loop {
        let read;
        // There and back, both of them.
        (source, part, read) = tokio::task::spawn_blocking(move || {
            let read = source.read(&mut part);
            (source, part, read)
        })
        .await?;
        // A stream that is reset tells the client that this is not the end.
        read.inspect_err(|_| drop(send.reset(1u32.into())))?;
        if part.is_empty() {
            break;
        }
        send.write_all(&part).await?;
        figures.bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
    }
    send.finish()?;
    figures.files.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

//! The load generator: `load` asks for bytes, `echo` times requests for one byte beside such downloads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quinn::Connection;
use tokio::task::JoinSet;

use crate::peer::Peer;
use crate::{Failure, To, stopped};

/// Time for the downloads to reach their speed.
const WARM_UP: Duration = Duration::from_secs(1);
/// Spreads the echoes: without a pause most would fall into moments when the link is idle.
const PAUSE: Duration = Duration::from_millis(10);

/// The downloads of all connections.
struct Downloads {
    client: Arc<Peer>,
    tasks: JoinSet<Result<(), Failure>>,
    /// Bytes received so far.
    received: Arc<AtomicU64>,
}

impl Downloads {
    /// Each connection asks once, or `again` and again.
    fn start(to: &To, again: bool) -> Result<Self, Failure> {
        let client = Arc::new(Peer::client(to.addr, to.socket)?);
        let (mut tasks, received) = (JoinSet::new(), Arc::<AtomicU64>::default());
        for _ in 0..to.connections {
            let (client, received) = (Arc::clone(&client), Arc::clone(&received));
            let (addr, bytes) = (to.addr, to.bytes);
            tasks.spawn(async move {
                let connection = client.connect(addr).await?;
                loop {
                    request(&connection, bytes, &received).await?;
                    if !again {
                        break;
                    }
                }
                connection.close(0u32.into(), b"done");
                Ok(())
            });
        }
        Ok(Self { client, tasks, received })
    }

    fn bytes(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Tells the server, so that it need not wait for a timeout.
    async fn close(&mut self) {
        self.tasks.abort_all();
        self.client.endpoint.close(0u32.into(), b"done");
        self.client.endpoint.wait_idle().await;
    }
}

/// Asks for bytes and receives them.
async fn request(connection: &Connection, bytes: u64, received: &AtomicU64) -> Result<(), Failure> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&bytes.to_be_bytes()).await?;
    send.finish()?;
    let mut came = 0;
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        came += chunk.bytes.len() as u64;
        received.fetch_add(chunk.bytes.len() as u64, Relaxed);
    }
    if came != bytes {
        return Err(format!("asked for {bytes} bytes, received {came}").into());
    }
    Ok(())
}

/// Asks over several connections at once. A signal ends it early.
pub async fn load(to: To) -> Result<(), Failure> {
    let start = Instant::now();
    let mut downloads = Downloads::start(&to, false)?;
    let mut stop = std::pin::pin!(stopped()?);
    let (mut whole, mut failure) = (0u32, None);
    loop {
        tokio::select! {
            ended = downloads.tasks.join_next() => match ended {
                Some(Ok(Ok(()))) => whole += 1,
                Some(Ok(Err(error))) => failure = Some(error),
                Some(Err(error)) => failure = Some(error.into()),
                None => break,
            },
            () = &mut stop => break,
        }
    }
    let (time, bytes) = (start.elapsed().as_secs_f64(), downloads.bytes());
    downloads.close().await;
    downloads.client.say(&format!(
        "connections {}, whole {whole}, bytes {bytes} in {time:.6} s, {:.0} bytes/s",
        to.connections,
        bytes as f64 / time
    ));
    failure.map_or(Ok(()), Err)
}

/// Measures for `seconds` how long a request for one byte takes while other connections download. A signal ends it
/// early.
pub async fn echo(to: To, seconds: u16) -> Result<(), Failure> {
    let mut downloads = Downloads::start(&to, true)?;
    let connection = downloads.client.connect(to.addr).await?;
    let (begin, time) = (Instant::now() + WARM_UP, Duration::from_secs(seconds.into()));
    let mut stop = std::pin::pin!(stopped()?);
    let (mut times, mut before, count) = (Vec::new(), 0, AtomicU64::new(0));
    loop {
        if to.connections > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let start = Instant::now();
        if start > begin + time {
            break;
        }
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(ended) = downloads.tasks.join_next() => ended??,
            result = request(&connection, 1, &count) => {
                result?;
                match start > begin {
                    true => times.push(start.elapsed()),
                    false => before = downloads.bytes(),
                }
            }
        }
    }
    let rate = (downloads.bytes() - before) as f64 / begin.elapsed().as_secs_f64().max(1e-6);
    downloads.close().await;
    times.sort_unstable();
    let nth = |percent| times.get(times.len() * percent / 100).map_or(0, Duration::as_micros);
    downloads.client.say(&format!(
        "echoes {}, us p50 {} p90 {} p99 {}, {rate:.0} bytes/s",
        times.len(),
        nth(50),
        nth(90),
        nth(99)
    ));
    Ok(())
}

//! The clients: `one` saves a file, `many` downloads at once without saving, `echo` times an echo beside downloads.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use quinn::Connection;

use crate::peer::Peer;
use crate::{Failure, From, protocol, say};

/// Time for the downloads to reach their speed.
const WARM_UP: Duration = Duration::from_secs(1);
/// Spreads the echoes: without a pause most would fall into moments when the link is idle.
const PAUSE: Duration = Duration::from_millis(10);

/// Saves a file.
pub async fn one(from: From, output: Option<PathBuf>, rebind: bool) -> Result<(), Failure> {
    let named = || Path::new(&from.path).file_name().map(PathBuf::from);
    let output = output.or_else(named).ok_or("the path has no name; choose one by -o")?;
    let client = Peer::client(from.addr, from.common)?;
    let connection = client.connect(from.addr).await?;
    let start = Instant::now();
    let result = fetch(&connection, &from.path, &output, rebind.then_some(&client)).await;
    let time = start.elapsed();
    // Even after an error, so that the server need not wait for a timeout.
    connection.close(u32::from(result.is_err()).into(), b"done");
    client.endpoint.wait_idle().await;
    let len = result?;
    say(format_args!("{}: {len} bytes in {:.3} s", output.display(), time.as_secs_f64()));
    client.say_stats();
    Ok(())
}

/// Saves a file under a temporary name until it is complete. Returns its length. `moves`, if given, changes the port
/// halfway.
async fn fetch(
    connection: &Connection,
    path: &str,
    output: &Path,
    mut moves: Option<&Peer>,
) -> Result<u64, Failure> {
    let (len, recv) = protocol::request(connection, path).await?;
    let bar = ProgressBar::new(len).with_style(ProgressStyle::with_template(
        "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
    )?);
    let mut part = output.as_os_str().to_owned();
    part.push(".part");
    let result = async {
        let mut file = File::create(&part)?;
        let take = |data: &[u8], received| {
            bar.set_position(received);
            file.write_all(data)?;
            moves.take_if(|_| received >= len / 2).map_or(Ok(()), Peer::rebind)
        };
        protocol::receive(recv, len, take).await?;
        bar.finish_and_clear();
        Ok(fs::rename(&part, output)?)
    };
    result.await.map(|()| len).map_err(|failure: Failure| {
        let _ = fs::remove_file(&part);
        format!("{}: {failure}", output.display()).into()
    })
}

/// Downloads a file `times` times over each of several connections at once.
pub async fn many(from: From, connections: u16, times: u32) -> Result<(), Failure> {
    let (addr, path) = (from.addr, Arc::<str>::from(from.path));
    let client = Arc::new(Peer::client(addr, from.common)?);
    let start = Instant::now();
    let get = |_| {
        let (client, path) = (Arc::clone(&client), Arc::clone(&path));
        tokio::spawn(async move {
            let connection = client.connect(addr).await?;
            let result = again_and_again(&connection, &path, times).await;
            connection.close(u32::from(result.is_err()).into(), b"done");
            result
        })
    };
    let tasks: Vec<_> = (0..connections).map(get).collect();
    let (mut whole, mut bytes, mut failure) = (0u32, 0u64, None);
    for task in tasks {
        match task.await? {
            Ok(received) => (whole, bytes) = (whole + 1, bytes + received),
            Err(error) => failure = Some(error),
        }
    }
    let time = start.elapsed().as_secs_f64();
    client.endpoint.wait_idle().await;
    let rate = bytes as f64 / time;
    say(format_args!(
        "connections {connections}, whole {whole}, bytes {bytes} in {time:.6} s, {rate:.0} bytes/s"
    ));
    client.say_stats();
    failure.map_or(Ok(()), Err)
}

/// Downloads the file `times` times in a row and returns the total of bytes.
async fn again_and_again(connection: &Connection, path: &str, times: u32) -> Result<u64, Failure> {
    let mut all = 0;
    for _ in 0..times {
        let (len, recv) = protocol::request(connection, path).await?;
        protocol::receive(recv, len, |_, _| Ok(())).await?;
        all += len;
    }
    Ok(all)
}

/// Measures for `seconds` how long one byte takes to the server and back, while other connections download a file
/// over and over.
pub async fn echo(from: From, connections: u16, seconds: u16) -> Result<(), Failure> {
    let (addr, path) = (from.addr, Arc::<str>::from(from.path));
    let client = Arc::new(Peer::client(addr, from.common)?);
    let received = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let (connection, path) = (client.connect(addr).await?, Arc::clone(&path));
        let received = Arc::clone(&received);
        tasks.push(tokio::spawn(async move {
            let add = |data: &[u8], _| {
                received.fetch_add(data.len() as u64, Relaxed);
                Ok(())
            };
            loop {
                let (len, recv) = protocol::request(&connection, &path).await?;
                protocol::receive(recv, len, add).await?;
            }
        }));
    }
    let connection = client.connect(addr).await?;
    let (mut send, mut recv) = protocol::request_echo(&connection).await?;
    let (begin, time) = (Instant::now() + WARM_UP, Duration::from_secs(seconds.into()));
    let mut times = Vec::new();
    loop {
        if connections > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let start = Instant::now();
        if start > begin + time {
            break;
        }
        send.write_all(b"?").await?;
        recv.read_exact(&mut [0]).await?;
        match start > begin {
            true => times.push(start.elapsed()),
            false => received.store(0, Relaxed),
        }
    }
    let rate = received.load(Relaxed) as f64 / begin.elapsed().as_secs_f64();
    for task in &tasks {
        task.abort();
    }
    client.endpoint.close(0u32.into(), b"done");
    client.endpoint.wait_idle().await;
    times.sort_unstable();
    let nth = |percent| times.get(times.len() * percent / 100).map_or(0, Duration::as_micros);
    say(format_args!(
        "echoes {}, us p50 {} p90 {} p99 {}, {rate:.0} bytes/s",
        times.len(),
        nth(50),
        nth(90),
        nth(99)
    ));
    client.say_stats();
    // A download never ends by itself.
    for task in tasks {
        if let Ok(result) = task.await {
            return result;
        }
    }
    Ok(())
}

//! Many clients at once, which keep nothing.

use std::time::Instant;

use quinn::{Connection, Endpoint};

use crate::cli::Load;
use crate::endpoint::Counting;
use crate::{Failure, certificate, protocol, say};

pub async fn run(options: &Load) -> Result<(), Failure> {
    let client = Counting::client(options.addr, &options.common)?;
    let start = Instant::now();
    let tasks: Vec<_> = (0..options.connections)
        .map(|_| {
            let (addr, path) = (options.addr, options.path.clone());
            tokio::spawn(connection(client.endpoint.clone(), addr, path, options.times))
        })
        .collect();
    let (mut whole, mut bytes, mut failure) = (0u32, 0u64, None);
    for task in tasks {
        match task.await? {
            Ok(received) => (whole, bytes) = (whole + 1, bytes + received),
            Err(error) => failure = Some(error),
        }
    }
    let time = start.elapsed().as_secs_f64();
    client.endpoint.wait_idle().await;
    say(format_args!(
        "connections {}, whole {whole}, bytes {bytes} in {time:.6} s, {:.0} bytes/s",
        options.connections,
        bytes as f64 / time
    ));
    client.tell();
    failure.map_or(Ok(()), Err)
}

/// Gets the file so many times, one after the other, and gives the bytes of all.
async fn connection(
    endpoint: Endpoint,
    addr: std::net::SocketAddr,
    path: String,
    times: u32,
) -> Result<u64, Failure> {
    let connection = endpoint.connect(addr, certificate::NAME)?.await?;
    let result = requests(&connection, &path, times).await;
    connection.close(u32::from(result.is_err()).into(), b"done");
    result
}

async fn requests(connection: &Connection, path: &str, times: u32) -> Result<u64, Failure> {
    let mut all = 0;
    for _ in 0..times {
        let (len, mut recv) = protocol::request(connection, path).await?;
        let mut received = 0;
        while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
            received += chunk.bytes.len() as u64;
        }
        if received != len {
            return Err(format!("{received} bytes came, {len} were announced").into());
        }
        all += received;
    }
    Ok(all)
}

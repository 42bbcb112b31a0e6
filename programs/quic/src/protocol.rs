//! A request and its answer, on one stream.
//!
//! The client sends a path and ends its side. The server answers with a zero byte, the file's length in 8 bytes
//! (big-endian) and the file; or with a one and a reason. Then it ends its side. A zero byte instead of a path asks
//! for an echo: the server sends back everything that follows.

use quinn::{Connection, RecvStream, SendStream};
use tokio::io::AsyncReadExt;

use crate::Failure;

/// Longest path or reason, in bytes.
const LONGEST: usize = 4096;
const FILE: u8 = 0;
const REFUSAL: u8 = 1;
const ECHO: u8 = 0;

/// Requests a file. Returns its length and the stream with its bytes.
pub async fn request(connection: &Connection, path: &str) -> Result<(u64, RecvStream), Failure> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(path.as_bytes()).await?;
    send.finish()?;
    match recv.read_u8().await? {
        FILE => Ok((recv.read_u64().await?, recv)),
        REFUSAL => {
            let why = recv.read_to_end(LONGEST).await?;
            Err(format!("{path}: {}", String::from_utf8_lossy(&why)).into())
        }
        _ => Err("the server's answer is neither a file nor a reason".into()),
    }
}

/// Receives a file of exactly this length. Calls `each` with every part and the number of bytes received so far.
pub async fn receive(
    mut recv: RecvStream,
    len: u64,
    mut each: impl FnMut(&[u8], u64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut received = 0;
    // Chunks of any size, in order.
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        received += chunk.bytes.len() as u64;
        if received > len {
            break;
        }
        each(&chunk.bytes, received)?;
    }
    if received != len {
        return Err(format!("received {received} bytes or more, but {len} were announced").into());
    }
    Ok(())
}

/// Requests an echo.
pub async fn request_echo(connection: &Connection) -> Result<(SendStream, RecvStream), Failure> {
    let (mut send, recv) = connection.open_bi().await?;
    send.write_all(&[ECHO]).await?;
    Ok((send, recv))
}

/// Reads the requested path; `None` if the client asks for an echo.
pub async fn requested(recv: &mut RecvStream) -> Result<Option<String>, Failure> {
    let mut path = vec![0];
    match recv.read(&mut path).await? {
        Some(_) if path == [ECHO] => return Ok(None),
        Some(_) => path.append(&mut recv.read_to_end(LONGEST).await?),
        None => path.clear(),
    }
    Ok(Some(String::from_utf8(path)?))
}

/// Sends back whatever arrives.
pub async fn echo(mut send: SendStream, mut recv: RecvStream) -> Result<(), Failure> {
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        send.write_chunk(chunk.bytes).await?;
    }
    Ok(send.finish()?)
}

/// Starts the answer with the file's length.
pub async fn accept(send: &mut SendStream, len: u64) -> Result<(), Failure> {
    send.write_all(&[FILE]).await?;
    Ok(send.write_all(&len.to_be_bytes()).await?)
}

/// Answers with a reason instead.
pub async fn refuse(send: &mut SendStream, why: &str) -> Result<(), Failure> {
    send.write_all(&[REFUSAL]).await?;
    send.write_all(why.as_bytes()).await?;
    Ok(send.finish()?)
}

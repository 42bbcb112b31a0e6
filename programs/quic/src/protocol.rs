//! A request and its answer, on a stream of their own.
//!
//! The client sends a path and ends its side. The server answers with a byte: 0, then the file's
//! length in 8 bytes, highest first, and the file; or 1 and why not. Then it ends its side.

use quinn::{Connection, RecvStream, SendStream};

use crate::Failure;

/// The longest path, and the longest reason, in bytes.
const LONGEST: usize = 4096;
const FILE: u8 = 0;
const REFUSAL: u8 = 1;

/// Asks for a file: gives its length, and the stream that it comes by.
pub async fn request(connection: &Connection, path: &str) -> Result<(u64, RecvStream), Failure> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(path.as_bytes()).await?;
    send.finish()?;
    let mut kind = [0];
    recv.read_exact(&mut kind).await?;
    match kind {
        [FILE] => {
            let mut len = [0; 8];
            recv.read_exact(&mut len).await?;
            Ok((u64::from_be_bytes(len), recv))
        }
        [REFUSAL] => {
            let why = recv.read_to_end(LONGEST).await?;
            Err(format!("{path}: {}", String::from_utf8_lossy(&why)).into())
        }
        _ => Err("the server speaks another language".into()),
    }
}

/// Reads the requested path.
pub async fn requested(recv: &mut RecvStream) -> Result<String, Failure> {
    Ok(String::from_utf8(recv.read_to_end(LONGEST).await?)?)
}

/// Begins the answer with a file of this length.
pub async fn accept(send: &mut SendStream, len: u64) -> Result<(), Failure> {
    let mut head = [FILE; 9];
    head[1..].copy_from_slice(&len.to_be_bytes());
    Ok(send.write_all(&head).await?)
}

/// Answers with a reason instead.
pub async fn refuse(send: &mut SendStream, why: &str) -> Result<(), Failure> {
    send.write_all(&[REFUSAL]).await?;
    send.write_all(why.as_bytes()).await?;
    Ok(send.finish()?)
}

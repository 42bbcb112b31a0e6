//! The client.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use quinn::{Connection, Endpoint, RecvStream};

use crate::cli::Get;
use crate::endpoint::{Counting, any_port};
use crate::{Failure, certificate, protocol, say};

pub async fn run(options: &Get) -> Result<(), Failure> {
    let output = output(options)?;
    let client = Counting::client(options.addr, &options.common)?;
    let connection = client.endpoint.connect(options.addr, certificate::NAME)?.await?;
    let start = Instant::now();
    let endpoint = options.rebind.then_some(&client.endpoint);
    let result = fetch(&connection, &options.path, &output, endpoint).await;
    let time = start.elapsed();
    // However it went: the server need not wait for more.
    connection.close(u32::from(result.is_err()).into(), b"done");
    client.endpoint.wait_idle().await;
    let len = result?;
    say(format_args!("{}: {len} bytes in {:.3} s", output.display(), time.as_secs_f64()));
    client.tell();
    Ok(())
}

/// Gets a file and gives its length. Until it is whole, it has another name.
async fn fetch(
    connection: &Connection,
    path: &str,
    output: &Path,
    moves: Option<&Endpoint>,
) -> Result<u64, Failure> {
    let (len, recv) = protocol::request(connection, path).await?;
    let part = part_of(output);
    let result = match File::create(&part) {
        Ok(file) => receive(recv, len, file, moves).await,
        Err(error) => Err(error.into()),
    };
    let result = result.and_then(|()| Ok(fs::rename(&part, output)?));
    result.map(|()| len).map_err(|failure| {
        let _ = fs::remove_file(&part);
        format!("{}: {failure}", output.display()).into()
    })
}

/// Where the file goes.
fn output(options: &Get) -> Result<PathBuf, Failure> {
    if let Some(output) = &options.output {
        return Ok(output.clone());
    }
    let name = Path::new(&options.path).file_name();
    Ok(name.ok_or("the path has no name; choose one by -o")?.into())
}

fn part_of(output: &Path) -> PathBuf {
    let mut name = OsString::from(output);
    name.push(".part");
    name.into()
}

/// Writes a file of this length, no less and no more, as it comes. Halfway the endpoint, if there
/// is one, moves to another port.
async fn receive(
    mut recv: RecvStream,
    len: u64,
    mut file: File,
    mut moves: Option<&Endpoint>,
) -> Result<(), Failure> {
    let bar = ProgressBar::new(len).with_style(ProgressStyle::with_template(
        "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
    )?);
    let mut received = 0;
    // As large as they come, in order.
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        received += chunk.bytes.len() as u64;
        if received > len {
            break;
        }
        file.write_all(&chunk.bytes)?;
        bar.set_position(received);
        if let Some(endpoint) = moves.take_if(|_| received >= len / 2) {
            endpoint.rebind(any_port(endpoint.local_addr()?)?)?;
        }
    }
    bar.finish_and_clear();
    if received != len {
        return Err(format!("{received} bytes or more came, {len} were announced").into());
    }
    Ok(file.flush()?)
}

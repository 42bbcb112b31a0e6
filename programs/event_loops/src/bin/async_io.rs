//! async-io, the reactor of smol: `Async` waits, and the socket inside it makes the batch calls.
//!
//! ```text
//! cargo run --release -p event_loops --bin async_io
//! ```
//!
//! Prints "1000 echoes".

#[cfg(unix)]
fn main() -> event_loops::common::Result {
    use async_io::Async;
    use event_loops::{Echo, Wait, finish, start};

    let (socket, client) = start()?;
    let socket = Async::new(socket)?;
    let mut echo = Echo::default();
    async_io::block_on(async {
        loop {
            match echo.turn(socket.get_ref()) {
                Wait::Readable => socket.readable().await?,
                Wait::Writable => socket.writable().await?,
                Wait::End => return std::io::Result::Ok(()),
            }
        }
    })?;
    Ok(finish(client)?)
}

#[cfg(not(unix))]
fn main() {}

//! compio: waits with `PollFd`, an operation of io_uring where the system has it.
//!
//! ```text
//! cargo run --release -p event_loops --bin compio
//! ```
//!
//! Prints "1000 echoes". The batch calls do not go through the ring: as in the other loops, one system call moves
//! the datagrams once they have arrived.

#[cfg(unix)]
fn main() -> event_loops::common::Result {
    use compio::runtime::Runtime;
    use compio::runtime::fd::PollFd;
    use event_loops::{Echo, Wait, finish, start};

    let (socket, client) = start()?;
    let mut echo = Echo::default();
    Runtime::new()?.block_on(async {
        let ready = PollFd::new(socket.try_clone()?)?;
        loop {
            match echo.turn(&socket) {
                Wait::Readable => ready.read_ready().await?,
                Wait::Writable => ready.write_ready().await?,
                Wait::End => return std::io::Result::Ok(()),
            }
        }
    })?;
    Ok(finish(client)?)
}

#[cfg(not(unix))]
fn main() {}

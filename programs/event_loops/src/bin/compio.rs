//! compio: on io_uring a wait is an operation like any other, and `PollFd` makes it.
//!
//! The batch calls themselves do not go through the ring: a system call that moves 64 datagrams is made once
//! they are there, as in every other loop.

#[cfg(unix)]
fn main() -> std::io::Result<()> {
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
    finish(client)
}

#[cfg(not(unix))]
fn main() {}

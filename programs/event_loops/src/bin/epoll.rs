//! epoll without a library, or poll(2) where there is no epoll.
//!
//! ```text
//! cargo run --release -p event_loops --bin epoll
//! ```
//!
//! Prints "1000 echoes".

#[cfg(target_os = "linux")]
fn main() -> event_loops::common::Result {
    use event_loops::{Echo, Wait, finish, start};
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

    let (socket, client) = start()?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    // Edge-triggered: an event comes when the socket becomes readable or writable.
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
    epoll::add(&epoll, &socket, EventData::new_u64(0), flags)?;
    let mut events = Vec::with_capacity(64);
    let mut echo = Echo::default();
    while echo.turn(&socket) != Wait::End {
        events.clear();
        rustix::io::retry_on_intr(|| {
            epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)
        })?;
    }
    Ok(finish(client)?)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn main() -> event_loops::common::Result {
    use event_loops::{Echo, Wait, finish, start};
    use rustix::event::{PollFd, PollFlags, poll};

    let (socket, client) = start()?;
    let mut echo = Echo::default();
    loop {
        let flags = match echo.turn(&socket) {
            Wait::Readable => PollFlags::IN,
            Wait::Writable => PollFlags::OUT,
            Wait::End => return Ok(finish(client)?),
        };
        rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&socket, flags)], None))?;
    }
}

#[cfg(not(unix))]
fn main() {}

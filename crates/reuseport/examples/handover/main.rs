//! An echo server that hands its sockets to the next one started with the same path, which goes on where it ended: no
//! request and no reply is lost.
//!
//! ```text
//! cargo run -p mmsg-reuseport --example handover 127.0.0.1:7777 /run/user/1000/echo &
//! cargo run -p mmsg-reuseport --example handover 127.0.0.1:7777 /run/user/1000/echo
//! ```

#[cfg(target_os = "linux")]
mod server;

fn main() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    server::run()?;
    Ok(())
}

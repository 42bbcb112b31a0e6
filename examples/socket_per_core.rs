//! One socket a core, all on one port (`SO_REUSEPORT`).
//!
//! ```text
//! cargo run --release --example socket_per_core
//! ```
//!
//! The kernel spreads the clients over the sockets; threads share nothing, since each has its own
//! socket, its own `RecvBatch` and its own pool of headers. Here 64 clients ask once each.

#[cfg(unix)]
fn main() -> std::io::Result<()> {
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    use socket2::{Domain, Socket, Type};

    fn bind(addr: SocketAddr) -> std::io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, None)?;
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
        // Checks from time to time whether to stop.
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        Ok(socket.into())
    }

    /// Echoes until `stop` is set, and returns the number of datagrams received.
    fn serve(socket: &UdpSocket, stop: &AtomicBool) -> usize {
        let mut batch = RecvBatch::new(64, 1500);
        let mut received = 0;
        while !stop.load(Ordering::Relaxed) {
            // A timeout, or an error about an earlier datagram: the socket is as good as before.
            let Ok(count) = socket.recv_into(&mut batch) else { continue };
            received += count;
            let replies = batch.iter().filter(|d| !d.truncated()).filter_map(|d| d.reply(d.data()));
            if let Err(error) = socket.send_each(replies, |_, error| eprintln!("reply: {error}")) {
                eprintln!("replies: {error}");
            }
        }
        received
    }

    let cores = thread::available_parallelism()?.get();
    // All are bound before the first datagram: a socket that joins later moves clients.
    let first = bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let addr = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..cores {
        sockets.push(bind(addr)?);
    }
    let stop = AtomicBool::new(false);
    let counts = thread::scope(|scope| {
        let workers: Vec<_> =
            sockets.iter().map(|socket| scope.spawn(|| serve(socket, &stop))).collect();
        let asked = (0..64).try_for_each(|_| {
            let client = UdpSocket::bind("127.0.0.1:0")?;
            client.send_to(b"hello", addr)?;
            client.recv(&mut [0; 16]).map(drop)
        });
        stop.store(true, Ordering::Relaxed);
        let counts: Vec<_> = workers.into_iter().map(|w| w.join().expect("no panic")).collect();
        asked.map(|()| counts)
    })?;
    println!("{} datagrams over {cores} sockets: {counts:?}", counts.iter().sum::<usize>());
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    println!("this example needs SO_REUSEPORT");
}

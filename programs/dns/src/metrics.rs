//! The sockets' counters over HTTP, as Prometheus reads them.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mmsg::Offload;

/// How long one client may hold up the next.
const WAIT: Duration = Duration::from_secs(1);

/// Starts a thread that answers every request with the counters, one client after the other. It ends with
/// the process.
pub fn start(addr: SocketAddr, sockets: Arc<[Offload<UdpSocket>]>) -> io::Result<()> {
    let listener = TcpListener::bind(addr)?;
    let serve = move || {
        for client in listener.incoming().flatten() {
            // A client that goes away misses its answer, and no more.
            let _ = answer(client, &page(&sockets));
        }
    };
    thread::Builder::new().name("metrics".into()).spawn(serve).map(drop)
}

fn answer(mut client: TcpStream, page: &str) -> io::Result<()> {
    client.set_read_timeout(Some(WAIT))?;
    client.set_write_timeout(Some(WAIT))?;
    // Every request gets the same page.
    let _ = client.read(&mut [0; 4096])?;
    let len = page.len();
    write!(
        client,
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{page}"
    )
}

/// Every counter of every socket, in the text format of Prometheus.
fn page(sockets: &[Offload<UdpSocket>]) -> String {
    let mut page = String::new();
    for (index, socket) in sockets.iter().enumerate() {
        for (name, value) in socket.counters().iter() {
            let _ = writeln!(page, "dns_{name}_total{{socket=\"{index}\"}} {value}");
        }
    }
    page
}

//! Serves the server's counters over HTTP, in the format of Prometheus.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use mmsg::Offload;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::places::Places;
use crate::responder::Responder;

/// Time limit for a client's request and its answer.
const LIMIT: Duration = Duration::from_secs(5);
pub const CONNECTIONS: usize = 16;

/// Answers every request with the counters.
pub async fn serve(
    listener: TcpListener,
    sockets: Arc<[Offload<UdpSocket>]>,
    responder: Arc<Responder>,
) {
    let each = |stream: TcpStream, _, _| {
        let (sockets, responder) = (Arc::clone(&sockets), Arc::clone(&responder));
        async move {
            let page = |_: Request<_>| {
                let page = Full::new(Bytes::from(page(&sockets, &responder)));
                let response = Response::builder()
                    .header(CONTENT_TYPE, "text/plain; version=0.0.4")
                    .body(page);
                async { response }
            };
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(LIMIT).keep_alive(false);
            let served = http.serve_connection(TokioIo::new(stream), service_fn(page));
            // An error or a timeout means that this client misses its answer.
            let _ = timeout(LIMIT, served).await;
        }
    };
    Places::new(CONNECTIONS, CONNECTIONS / 2).run(listener, &AtomicU64::new(0), each).await;
}

/// The datagrams that the system dropped for lack of space, also while none is received.
pub fn dropped(socket: &Offload<UdpSocket>) -> u64 {
    mmsg::options::dropped(socket.get_ref()).map_or(0, u64::from)
}

/// All counters of the sockets and the server, in the text format of Prometheus.
fn page(sockets: &[Offload<UdpSocket>], responder: &Responder) -> String {
    let mut page = String::new();
    for (index, socket) in sockets.iter().enumerate() {
        for (name, value) in socket.state().counters().iter() {
            // `unsent` is about segments that this program does not choose.
            let (name, value) = match name {
                "unsent" => ("dropped", dropped(socket)),
                _ => (name, value),
            };
            let _ = writeln!(page, "dns_{name}_total{{socket=\"{index}\"}} {value}");
        }
    }
    responder.counts.write(&mut page);
    page
}

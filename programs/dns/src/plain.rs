//! The same server on tokio's socket, one datagram at a time and without this crate, for comparison.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::responder::Responder;
use crate::{STOP, Totals, WAIT};

/// Answers queries until `STOP` is set, on a runtime of this thread.
pub fn run(socket: &UdpSocket, responder: &Responder) -> io::Result<Totals> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UdpSocket::from_std(socket.try_clone()?)?;
        let mut totals = Totals::default();
        let stopped = async {
            while !STOP.load(Relaxed) {
                tokio::time::sleep(WAIT).await;
            }
        };
        tokio::select! {
            () = stopped => {}
            () = serve(&socket, responder, &mut totals) => {}
        }
        Ok(totals)
    })
}

async fn serve(socket: &tokio::net::UdpSocket, responder: &Responder, totals: &mut Totals) {
    let (mut query, mut out) = (vec![0; 1 << 16], vec![0; responder.max_udp()]);
    loop {
        let (len, from) = match socket.recv_from(&mut query).await {
            Ok(received) => received,
            Err(error) => {
                responder.counts.receive_failed(&error);
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
        };
        totals.received += 1;
        // As mmsg's `reply_addr`: Linux delivers what goes to `::` by loopback.
        if from.port() == 0 || from.ip().to_canonical().is_unspecified() {
            continue;
        }
        let len = responder.answer_udp(&responder.zone(), &query[..len], from, &mut out);
        let Some(len) = len else { continue };
        match socket.send_to(&out[..len], from).await {
            Ok(_) => totals.answered += 1,
            Err(_) => _ = responder.counts.send_errors.fetch_add(1, Relaxed),
        }
    }
}

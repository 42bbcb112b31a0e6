//! The socket of a QUIC endpoint: a stack lends it and the buffers for each call, and keeps nothing in them.
//!
//! ```text
//! cargo run --release --example quic_socket
//! ```
//!
//! Sends have ECN bits and a source of their own, GSO segments them and GRO coalesces them. A probe that the path
//! does not carry is no error. Here a client probes the path and sends 50 datagrams; the server acknowledges.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use mmsg::offload::OffloadState;
use mmsg::options::Fragmentation;
use mmsg::{Ancillary, Datagram, Ecn, SendMeta, SendMsg, errors, prelude::*};

/// What the stack wants to have sent: datagrams of `segment` bytes, of which the last may be shorter.
struct Transmit<'a> {
    dest: SocketAddr,
    source: Option<IpAddr>,
    ecn: Ecn,
    segment: usize,
    contents: &'a [u8],
}

fn prepare(socket: &UdpSocket) -> io::Result<OffloadState> {
    (Ancillary::DEST | Ancillary::TOS).require(socket)?;
    // QUIC must not be fragmented (RFC 9000, section 14), but goes on where that cannot be set.
    let _ = Fragmentation::Probe.set(socket);
    OffloadState::new(socket)
}

/// Returns whether the path carries datagrams of this size, as far as this host can tell.
fn transmit(socket: &UdpSocket, state: &OffloadState, what: &Transmit<'_>) -> io::Result<bool> {
    let mut meta = SendMeta::new().with_ecn(what.ecn);
    meta.source = what.source;
    let datagrams = what.contents.chunks(what.segment);
    let msgs = datagrams.map(|data| SendMsg::to(what.dest, data).with_meta(&meta));
    match state.on(socket).send_iter(msgs) {
        Ok(_) => Ok(true), // What was not sent counts as lost, and the stack repeats it.
        Err(error) if errors::is_too_big(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn receive(
    socket: &UdpSocket,
    state: &OffloadState,
    buffers: &mut [IoSliceMut<'_>],
    mut handle: impl FnMut(Datagram<'_>),
) -> io::Result<usize> {
    state.on(socket).recv_slices(buffers, |_, message| message.datagrams().for_each(&mut handle))
}

fn main() -> io::Result<()> {
    let (server, client) = (UdpSocket::bind("0.0.0.0:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let (server_state, client_state) = (prepare(&server)?, prepare(&client)?);
    let dest = SocketAddr::from(([127, 0, 0, 1], server.local_addr()?.port()));
    let mut memory = vec![0; 8 * 65_535];
    let mut buffers: Vec<_> = memory.chunks_mut(65_535).map(IoSliceMut::new).collect();

    let payload = [7; 60_000];
    let data = Transmit { dest, source: None, ecn: Ecn::Ect0, segment: 1200, contents: &payload };
    let (mut carried, mut too_big) = (0, 0);
    for size in [1200, 1452, 9000, 70_000] {
        let probe = Transmit { segment: size, contents: &[7; 70_000][..size], ..data };
        match transmit(&client, &client_state, &probe)? {
            true => carried += 1,
            false => too_big = size,
        }
    }
    println!("{carried} probes sent, {too_big} bytes are too many");
    transmit(&client, &client_state, &data)?;

    // Acknowledge with the count of datagrams by ECN bits (RFC 9000, section 13.4).
    let (mut counts, mut last) = ([0u8; 4], None);
    while counts.iter().sum::<u8>() < 50 + carried {
        receive(&server, &server_state, &mut buffers, |datagram| {
            counts[datagram.meta().ecn().unwrap_or_default() as usize] += 1;
            last = datagram.addr().zip(Some(datagram.meta().reply().source));
        })?;
    }
    let (dest, source) = last.expect("a datagram was received");
    let ack = Transmit { dest, source, ecn: Ecn::Ect0, segment: 4, contents: &counts };
    transmit(&server, &server_state, &ack)?;
    receive(&client, &client_state, &mut buffers, |ack| {
        let (from, ecn) = (ack.addr().map(|from| from.ip()), ack.meta().ecn());
        println!("acknowledged by {from:?}, ECN {ecn:?}: {:?} datagrams", ack.data());
    })?;
    Ok(())
}

//! A member of a multicast group that answers each sender from its own address, as service discovery does.
//!
//! ```text
//! cargo run --release --example multicast [ADDRESS...]
//! ```
//!
//! A reply cannot leave from a group's address, so `reply` uses the host's address that received the question. Where two
//! interfaces (by their addresses) lead to one network, `by_interface` answers on the one that the question came by. A
//! forged source would be flooded by all members: this one answers only questions from its own link, whose hop limit no
//! router has lowered (RFC 5082). Two questions over loopback print "asked 239.255.77.7, answered by Some(127.0.0.1): here".

#[macro_use]
mod common;

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use mmsg::{Ancillary, RecvBatch, prelude::*};
use socket2::{Domain, SockRef, Socket, Type};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 7);

/// Joins the group on each interface. `Ancillary::DEST` is on before the first datagram can arrive.
fn join(interfaces: &[Ipv4Addr]) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    (Ancillary::DEST | Ancillary::HOP_LIMIT).require(&socket)?;
    socket.bind(&std::net::SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into())?;
    for interface in interfaces {
        let joined = socket.join_multicast_v4(&GROUP, interface);
        joined.map_err(|error| io::Error::other(format!("{interface}: {error}")))?;
    }
    Ok(socket.into())
}

fn answer(socket: &UdpSocket) -> io::Result<()> {
    let mut batch = RecvBatch::new(64, 1500);
    loop {
        if let Err(error) = socket.recv_into(&mut batch) {
            eprintln!("receive: {error}");
            thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
        }
        // Answers only questions to the group: the socket also receives datagrams to this host.
        let asked = batch
            .iter()
            .filter(|d| d.meta().dest == Some(GROUP.into()) && d.meta().hop_limit == Some(255));
        let answers = asked.filter_map(|question| Some(question.reply(b"here")?.by_interface()));
        socket.send_each(answers, |_, error| eprintln!("answer: {error}"))?;
    }
}

fn main() -> common::Result {
    let mut interfaces = common::arguments("[IP-ADDRESS...]", usize::MAX);
    interfaces.extend(Some(Ipv4Addr::LOCALHOST).filter(|lo| !interfaces.contains(lo)));
    let member = join(&interfaces)?;
    let port = member.local_addr()?.port();
    thread::spawn(move || answer(&member));

    let client = UdpSocket::bind("127.0.0.1:0")?;
    SockRef::from(&client).set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
    SockRef::from(&client).set_multicast_ttl_v4(255)?;
    client.send_to(b"not to the group", (Ipv4Addr::LOCALHOST, port))?;
    let mut batch = RecvBatch::new(8, 1500);
    for _ in 0..2 {
        client.send_to(b"who is there?", (GROUP, port))?;
        client.recv_into(&mut batch)?;
        for answer in &batch {
            let from = answer.addr().map(|from| from.ip());
            println!("asked {GROUP}, answered by {from:?}: {}", answer.data().escape_ascii());
        }
    }
    Ok(())
}

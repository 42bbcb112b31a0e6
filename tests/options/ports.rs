//! Which port the system chooses.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use mmsg::options::{set_bind_without_port, set_local_port_range};
use socket2::{Domain, Socket, Type};

use crate::common::sockets::{addr, udp4};
use crate::common::{code, skip};

fn local(family: Domain) -> (Socket, SocketAddr) {
    let socket = Socket::new(family, Type::DGRAM, None).expect("a UDP socket");
    let ip = if family == Domain::IPV4 {
        Ipv4Addr::LOCALHOST.into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    };
    (socket, SocketAddr::new(ip, 0))
}

fn port(socket: &Socket) -> u16 {
    let local = socket.local_addr().expect("it is bound").as_socket();
    local.expect("an Internet socket").port()
}

#[test]
fn a_range_limits_the_ports_chosen() {
    // Inside the system's default range.
    let ports = 40_000..=40_063;
    for family in [Domain::IPV4, Domain::IPV6] {
        let (socket, any) = local(family);
        if let Err(error) = set_local_port_range(&socket, ports.clone()) {
            return skip("a_range_limits_the_ports_chosen", error);
        }
        if let Err(error) = socket.bind(&any.into()) {
            return skip("a_range_limits_the_ports_chosen", error);
        }
        assert!(ports.contains(&port(&socket)));
        let reversed = std::ops::RangeInclusive::new(40_063, 40_000);
        assert_eq!(code(set_local_port_range(&socket, reversed)), libc::EINVAL);
        set_local_port_range(&socket, 0..=0).expect("it ends the limit");
    }
}

#[test]
fn a_bind_without_port_leaves_it_to_the_first_send() {
    let to = udp4();
    let (socket, any) = local(Domain::IPV4);
    set_bind_without_port(&socket, true).expect("Linux 4.2");
    socket.bind(&any.into()).expect("any port");
    assert_eq!(port(&socket), 0);
    socket.send_to(b"one", &addr(&to).into()).expect("loopback takes a datagram");
    let (_, from) = to.recv_from(&mut [0; 8]).expect("it was sent");
    assert_eq!((from.port(), from.ip()), (port(&socket), any.ip()));
    assert_ne!(from.port(), 0);
}

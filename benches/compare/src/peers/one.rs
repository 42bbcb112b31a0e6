//! One message a send, with ECN bits and the source address, to a socket that nobody reads: the kernel drops what does not
//! fit.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use mmsg::options::Fragmentation;
use mmsg::{BatchSocket, Ecn, Offload, SendMeta, SendMsg};
use quinn_udp::{EcnCodepoint, Transmit, UdpSockRef, UdpSocketState};

/// Sends one message.
pub type SendOne = Box<dyn Fn()>;

const PAYLOAD: [u8; 1200] = [7; 1200];
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A sender, the receiver that keeps its port open, and the receiver's address.
fn sockets() -> (UdpSocket, UdpSocket, SocketAddr) {
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    let (near, far) = (bind(), bind());
    Fragmentation::Probe.set(&near).expect("Linux has it");
    let to = far.local_addr().expect("it is bound");
    (near, far, to)
}

pub fn by_quinn_udp() -> SendOne {
    let (near, far, destination) = sockets();
    let state = UdpSocketState::new(UdpSockRef::from(&near)).expect("a socket's options");
    let ecn = Some(EcnCodepoint::Ect0);
    Box::new(move || {
        let _open = &far;
        let src_ip = Some(SOURCE);
        let msg = Transmit { destination, ecn, contents: &PAYLOAD, segment_size: None, src_ip };
        state.try_send(UdpSockRef::from(&near), &msg).expect("loopback takes it");
    })
}

pub fn by_mmsg() -> SendOne {
    let (near, far, to) = sockets();
    sends(near, far, to)
}

pub fn by_offload() -> SendOne {
    let (near, far, to) = sockets();
    sends(Offload::new(near).expect("a socket's options"), far, to)
}

fn sends(near: impl BatchSocket + 'static, far: UdpSocket, to: SocketAddr) -> SendOne {
    Box::new(move || {
        let _open = &far;
        let meta = SendMeta::new().with_source(SOURCE);
        let msg = SendMsg::to(to, &PAYLOAD).with_meta(&meta).with_ecn(Ecn::Ect0);
        assert_eq!(near.send_batch(&[msg]).expect("loopback takes it"), 1);
    })
}

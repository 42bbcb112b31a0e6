//! nix: `sendmmsg` and `recvmmsg` with `MultiHeaders` allocated once, as its documentation shows.
//!
//! Slices, addresses and control messages to send are made once. The result of a receive borrows its slices, so
//! each call makes them anew: in an array of the right size on the stack, where the documentation allocates a vector.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrIn, recvmmsg,
    sendmmsg,
};

use super::Peer;
use crate::load::{self, Datagram, ECN, Load, SLOT_LEN};
use crate::wire::Wire;

pub struct Nix {
    metadata: bool,
    slices: Vec<[IoSlice<'static>; 1]>,
    addrs: Vec<Option<SockaddrIn>>,
    send: MultiHeaders<SockaddrIn>,
    recv: MultiHeaders<SockaddrIn>,
    slots: usize,
    buffers: Vec<&'static mut [u8]>,
}

impl Peer for Nix {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        wire.enable_metadata(load.metadata)?;
        let addr = |to: &SocketAddr| match to {
            SocketAddr::V4(addr) => Some(SockaddrIn::from(*addr)),
            SocketAddr::V6(_) => panic!("the benchmarks run on IPv4"),
        };
        let payloads = load.contiguous(&wire.to);
        let to_send = load.metadata.then(|| cmsg_space!(u8));
        let to_receive = load.metadata.then(|| cmsg_space!(u8, libc::in_pktinfo));
        Ok(Self {
            metadata: load.metadata,
            slices: payloads.iter().map(|(_, payload)| [IoSlice::new(payload)]).collect(),
            addrs: payloads.iter().map(|(to, _)| addr(to)).collect(),
            send: MultiHeaders::preallocate(load.datagrams(), to_send),
            recv: MultiHeaders::preallocate(load.slots, to_receive),
            slots: load.slots,
            buffers: load::buffers(load.slots, SLOT_LEN).collect(),
        })
    }

    fn send(&mut self, wire: &Wire) {
        let with_ecn = [ControlMessage::Ipv4Tos(&ECN)];
        let cmsgs = if self.metadata { &with_ecn[..] } else { &[] };
        let (fd, flags) = (wire.near.as_raw_fd(), MsgFlags::empty());
        let sent = sendmmsg(fd, &mut self.send, &self.slices, &self.addrs, cmsgs, flags);
        assert_eq!(sent.expect("loopback takes them").count(), self.slices.len());
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, see: impl FnMut(Datagram<'_>)) {
        let socket = &wire.far[dest];
        match self.slots {
            1 => self.take::<1>(socket, see),
            2 => self.take::<2>(socket, see),
            4 => self.take::<4>(socket, see),
            8 => self.take::<8>(socket, see),
            16 => self.take::<16>(socket, see),
            32 => self.take::<32>(socket, see),
            64 => self.take::<64>(socket, see),
            128 => self.take::<128>(socket, see),
            256 => self.take::<256>(socket, see),
            _ => self.take::<512>(socket, see),
        }
    }
}

impl Nix {
    #[inline(always)]
    fn take<const SLOTS: usize>(&mut self, socket: &UdpSocket, mut see: impl FnMut(Datagram<'_>)) {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [[IoSliceMut<'_>; 1]; SLOTS] =
            std::array::from_fn(|_| [IoSliceMut::new(buffers.next().expect("one for each slot"))]);
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::MSG_WAITFORONE);
        let received = recvmmsg(fd, &mut self.recv, slices.iter_mut(), flags, None);
        for msg in received.expect("they have arrived") {
            let addr = SocketAddr::V4(SocketAddrV4::from(msg.address.expect("a source")));
            let meta = if self.metadata { Some(metadata_of(&msg)) } else { None };
            let data = msg.iovs().next().unwrap_or_default();
            see(Datagram { addr, data, meta });
        }
    }
}

#[inline(always)]
fn metadata_of(msg: &RecvMsg<'_, '_, SockaddrIn>) -> (u8, IpAddr) {
    let (mut ecn, mut dest) = (0, Ipv4Addr::UNSPECIFIED);
    for message in msg.cmsgs().expect("space for what is enabled") {
        match message {
            ControlMessageOwned::Ipv4Tos(tos) => ecn = tos & 0b11,
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                dest = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes());
            }
            _ => {}
        }
    }
    (ecn, IpAddr::V4(dest))
}

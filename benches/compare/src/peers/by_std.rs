//! std: `send_to` and `recv_from`, one datagram per call, no metadata.

use std::io;
use std::net::SocketAddr;

use super::Peer;
use crate::load::{Datagram, Load, SLOT_LEN};
use crate::wire::Wire;

pub struct Std {
    list: Vec<(SocketAddr, &'static [u8])>,
    buffer: Vec<u8>,
}

impl Peer for Std {
    const HAS_METADATA: bool = false;

    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        Ok(Self { list: load.contiguous(&wire.to), buffer: vec![0; SLOT_LEN] })
    }

    fn send(&mut self, wire: &Wire) {
        for (to, payload) in &self.list {
            wire.near.send_to(payload, to).expect("loopback takes it");
        }
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let (len, addr) = wire.far[dest].recv_from(&mut self.buffer).expect("it has arrived");
        see(Datagram { addr, data: &self.buffer[..len], meta: None });
    }
}

//! binger-udp: batches that own their memory, so each turn copies its payloads into them.
//!
//! Its calls that do not wait are used, since the datagrams have arrived.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::OnceLock;

use binger_udp::batch::{RecvBatchRaw, SendBatchRaw};
use binger_udp::{BingerUdp, Config};
use tokio::runtime::{Builder, Runtime};

use super::Peer;
use crate::load::{Datagram, Load, SLOT_LEN};
use crate::wire::Wire;

pub struct Binger {
    near: BingerUdp,
    far: Vec<BingerUdp>,
    payloads: Vec<(SocketAddr, &'static [u8])>,
    out: SendBatchRaw,
    arrived: RefCell<RecvBatchRaw>,
}

/// Its sockets are made within a runtime, although no call here waits.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_current_thread().enable_io().build().expect("a runtime can start")
    })
}

impl Peer for Binger {
    const HAS_METADATA: bool = false;

    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        let _context = runtime().enter();
        let socket = |socket: &UdpSocket| {
            socket.set_nonblocking(true)?;
            BingerUdp::from_std(socket.try_clone()?, Config::default())
        };
        Ok(Self {
            near: socket(&wire.near)?,
            far: wire.far.iter().map(socket).collect::<io::Result<_>>()?,
            payloads: load.contiguous(&wire.to),
            out: SendBatchRaw::with_capacity(load.datagrams()),
            arrived: RefCell::new(RecvBatchRaw::with_capacity(load.slots, SLOT_LEN)),
        })
    }

    #[inline(always)]
    fn send(&mut self, _: &Wire) {
        self.out.clear();
        for (to, payload) in &self.payloads {
            self.out.push(payload, Some(*to)).expect("it has room for all");
        }
        let sent = self.near.try_send_batch(&mut self.out).expect("loopback takes them");
        assert_eq!(sent, self.payloads.len());
    }

    #[inline(always)]
    fn receive(&mut self, _: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let arrived = self.arrived.get_mut();
        arrived.clear();
        let count = self.far[dest].try_recv_batch(arrived).expect("they have arrived");
        for i in 0..count {
            see(Datagram { addr: arrived.addr(i), data: arrived.data(i), meta: None });
        }
    }
}

//! gotatun's packets on a TUN device.
//!
//! With offload the device passes many packets of a TCP connection as one: tun-rs segments what it reads and coalesces
//! what it writes. gotatun sends packets one by one and does not mark the last. So a channel collects them, and a task
//! writes together those that wait in it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::BytesMut;
use gotatun::packet::{Ip, Packet, PacketBufPool};
use gotatun::tun::{IpRecv, IpSend, MtuWatcher};
use ipnetwork::IpNetwork;
use tokio::sync::mpsc;
use tun_rs::{AsyncDevice, DeviceBuilder, GROTable, IDEAL_BATCH_SIZE, VIRTIO_NET_HDR_LEN};

use crate::config::Config;
use crate::udp::POOLED;

/// Enough for the longest packet, 65,535 bytes, in segments for an MTU of 296 or more.
const MAX_SEGMENTS: usize = 256;

/// The device, and its counters.
pub struct Tun {
    device: AsyncDevice,
    mtu: u16,
    offload: bool,
    reads: AtomicU64,
    read: AtomicU64,
    /// Packets read that tun-rs cannot segment or that are not IP.
    unfit: AtomicU64,
    writes: AtomicU64,
    written: AtomicU64,
    /// Packets whose write failed.
    rejected: AtomicU64,
}

impl Tun {
    /// Makes the device, with the configuration's addresses and MTU, and brings it up.
    pub fn new(name: &str, config: &Config, offload: bool) -> Result<Self, String> {
        let mut builder = DeviceBuilder::new().name(name).mtu(config.mtu).offload(offload);
        for address in &config.addresses {
            builder = match address {
                IpNetwork::V4(v4) => builder.ipv4(v4.ip(), v4.prefix(), None),
                IpNetwork::V6(v6) => builder.ipv6(v6.ip(), v6.prefix()),
            };
        }
        let device = builder.build_async().map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => ": run this as root, or with CAP_NET_ADMIN",
                io::ErrorKind::ResourceBusy => {
                    ": another program has this device; choose a --device"
                }
                _ => "",
            };
            format!("TUN device {name}: {error}{hint}")
        })?;
        let [reads, read, unfit, writes, written, rejected] = Default::default();
        let mtu = config.mtu;
        Ok(Self { device, mtu, offload, reads, read, unfit, writes, written, rejected })
    }

    /// The two ends that gotatun takes.
    pub fn ends(self: &Arc<Self>) -> (Writer, Reader) {
        let writer = if self.offload {
            let (sender, receiver) = mpsc::channel(IDEAL_BATCH_SIZE);
            tokio::spawn(write_coalesced(Arc::clone(self), receiver));
            Writer::Coalescing(sender)
        } else {
            Writer::Plain(Arc::clone(self))
        };
        // Without offload tun-rs reads into the first segment and does not use the buffer.
        let (len, segments) = if self.offload { (65_535, MAX_SEGMENTS) } else { (0, 1) };
        let reader = Reader {
            tun: Arc::clone(self),
            buffer: vec![0; VIRTIO_NET_HDR_LEN + len],
            segments: Vec::with_capacity(segments),
            lens: vec![0; segments],
            packets: Vec::new(),
        };
        (writer, reader)
    }

    /// Counts packets that were written or failed. gotatun does not learn of failures: it might take one for the end of
    /// the device, which the reader detects.
    fn count_written(&self, packets: usize, result: &io::Result<usize>) {
        self.writes.fetch_add(1, Relaxed);
        let count = if result.is_ok() { &self.written } else { &self.rejected };
        count.fetch_add(packets as u64, Relaxed);
    }
}

/// gotatun reads packets from this.
pub struct Reader {
    tun: Arc<Tun>,
    buffer: Vec<u8>,
    segments: Vec<Packet>,
    lens: Vec<usize>,
    packets: Vec<Packet<Ip>>,
}

impl IpRecv for Reader {
    async fn recv<'a>(
        &'a mut self,
        pool: &mut PacketBufPool,
    ) -> io::Result<impl Iterator<Item = Packet<Ip>> + Send + 'a> {
        let Self { tun, buffer, segments, lens, packets } = self;
        while packets.is_empty() {
            let mtu = usize::from(tun.mtu);
            segments.resize_with(lens.len(), || match mtu {
                ..=POOLED => pool.get(),
                _ => Packet::from_bytes(BytesMut::zeroed(mtu)),
            });
            let mut bufs: Vec<_> = segments.iter_mut().map(Packet::buf_mut).collect();
            let count = match tun.device.recv_multiple(buffer, &mut bufs, lens, 0).await {
                Ok(count) => count,
                // The device's own error, for example that it is gone. It ends gotatun.
                Err(error) if error.raw_os_error().is_some() => return Err(error),
                // A packet that tun-rs cannot segment.
                Err(_) => {
                    tun.unfit.fetch_add(1, Relaxed);
                    continue;
                }
            };
            tun.reads.fetch_add(1, Relaxed);
            for (mut packet, len) in segments.drain(..count).zip(&*lens) {
                packet.truncate(*len);
                let fit = packet.try_into_ip().map(|packet| packets.push(packet)).is_ok();
                let count = if fit { &tun.read } else { &tun.unfit };
                count.fetch_add(1, Relaxed);
            }
        }
        Ok(packets.drain(..))
    }

    fn mtu(&self) -> MtuWatcher {
        MtuWatcher::new(self.tun.mtu)
    }
}

/// gotatun writes packets to this.
pub enum Writer {
    Plain(Arc<Tun>),
    Coalescing(mpsc::Sender<Packet<Ip>>),
}

impl IpSend for Writer {
    async fn send(&mut self, packet: Packet<Ip>) -> io::Result<()> {
        match self {
            Self::Plain(tun) => {
                let result = tun.device.send(&packet.into_bytes()).await;
                tun.count_written(1, &result);
                Ok(())
            }
            // Waits while the channel is full: no packet is dropped here.
            Self::Coalescing(sender) => {
                sender.send(packet).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
            }
        }
    }
}

/// Writes packets from the channel until gotatun has ended.
async fn write_coalesced(tun: Arc<Tun>, mut packets: mpsc::Receiver<Packet<Ip>>) {
    // tun-rs appends packets to the first of them, so each buffer has space for the longest packet.
    let buffer = || Vec::with_capacity(VIRTIO_NET_HDR_LEN + 65_535);
    let mut buffers: Vec<Vec<u8>> = std::iter::repeat_with(buffer).take(IDEAL_BATCH_SIZE).collect();
    let (mut batch, mut table) = (Vec::new(), GROTable::new());
    while packets.recv_many(&mut batch, IDEAL_BATCH_SIZE).await > 0 {
        let count = batch.len();
        for (packet, buffer) in batch.drain(..).zip(&mut buffers) {
            buffer.clear();
            buffer.resize(VIRTIO_NET_HDR_LEN, 0);
            buffer.extend_from_slice(&packet.into_bytes());
        }
        let bufs = &mut buffers[..count];
        let result = tun.device.send_multiple(&mut table, bufs, VIRTIO_NET_HDR_LEN).await;
        tun.count_written(count, &result);
    }
}

impl fmt::Display for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, read, unfit, writes, written, rejected, .. } = self;
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let [reads, read, unfit] = [reads, read, unfit].map(count);
        let [writes, written, rejected] = [writes, written, rejected].map(count);
        writeln!(f, "tun read: packets {read}, reads {reads}, unfit {unfit}")?;
        writeln!(f, "tun written: packets {written}, batches {writes}, rejected {rejected}")
    }
}

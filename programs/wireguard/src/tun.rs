//! gotatun's packets by a TUN device.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gotatun::packet::{Ip, Packet, PacketBufPool};
use gotatun::tun::{IpRecv, IpSend, MtuWatcher};
use ipnetwork::IpNetwork;
use tun_rs::{AsyncDevice, DeviceBuilder};

use crate::config::Config;

/// The device, for gotatun to read and write. Clones share it.
#[derive(Clone)]
pub struct Tun(Arc<Shared>);

struct Shared {
    device: AsyncDevice,
    mtu: u16,
    read: AtomicU64,
    unfit: AtomicU64,
    written: AtomicU64,
    rejected: AtomicU64,
}

impl Tun {
    /// Makes the device with the addresses and the MTU of the configuration, and sets it up.
    pub fn new(name: &str, config: &Config) -> Result<Self, String> {
        if !Path::new("/dev/net/tun").exists() {
            let hint = "load the module (`modprobe tun`), or pass the device to the container";
            return Err(format!("there is no /dev/net/tun: {hint}"));
        }
        let mut builder = DeviceBuilder::new().name(name).mtu(config.mtu);
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
        let count = AtomicU64::default;
        let (read, unfit, written, rejected) = (count(), count(), count(), count());
        Ok(Self(Arc::new(Shared { device, mtu: config.mtu, read, unfit, written, rejected })))
    }
}

impl IpRecv for Tun {
    async fn recv<'a>(
        &'a mut self,
        pool: &mut PacketBufPool,
    ) -> io::Result<impl Iterator<Item = Packet<Ip>> + Send + 'a> {
        loop {
            let mut packet = pool.get();
            let len = self.0.device.recv(&mut packet).await?;
            packet.truncate(len);
            self.0.read.fetch_add(1, Relaxed);
            match packet.try_into_ip() {
                Ok(packet) => return Ok(std::iter::once(packet)),
                // gotatun would take an error for the end of the device.
                Err(_) => self.0.unfit.fetch_add(1, Relaxed),
            };
        }
    }

    fn mtu(&self) -> MtuWatcher {
        MtuWatcher::new(self.0.mtu)
    }
}

impl IpSend for Tun {
    async fn send(&mut self, packet: Packet<Ip>) -> io::Result<()> {
        let result = self.0.device.send(&packet.into_bytes()).await;
        let count = if result.is_ok() { &self.0.written } else { &self.0.rejected };
        count.fetch_add(1, Relaxed);
        match result {
            // About this packet. gotatun would take it for the end of the device.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Tun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let Shared { read, unfit, written, rejected, .. } = &*self.0;
        writeln!(f, "tun read: packets {}, unfit {}", count(read), count(unfit))?;
        writeln!(f, "tun written: packets {}, rejected {}", count(written), count(rejected))
    }
}

//! Two network namespaces, connected by a pair of virtual Ethernet devices.

// Each test binary uses only a part.
#![allow(dead_code)]

use std::fs::File;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::linux::in_namespace;
use crate::common::{TIME_LIMIT, skip};

/// The near end's device and address.
pub const DEVICE: &str = "near0";
/// The far end's device.
pub const FAR_DEVICE: &str = "far0";
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The far end's address.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Another of its addresses, for routes that a test makes.
pub const FAR_ROUTED: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);

/// The namespace at the far end. Dropping it removes the namespace and the devices.
pub struct Far(File);

/// Runs `test` at the near end, in a namespace of its own. Prints why and does nothing if the process may not make
/// one.
pub fn with_far_end(name: &str, test: impl FnOnce(Far) + Send) {
    in_namespace(name, || match connect() {
        Ok(far) => test(far),
        Err(error) => skip(name, format_args!("no pair of devices: {error}")),
    });
}

fn connect() -> io::Result<Far> {
    let far = Far::new()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), far.0.as_raw_fd());
    ip(&format!("link add {DEVICE} type veth peer name far0 netns {path}"))?;
    ip(&format!("addr add {NEAR}/24 dev {DEVICE}"))?;
    ip(&format!("link set {DEVICE} up"))?;
    far.enter(|| {
        ip(&format!("addr add {FAR}/24 dev far0"))?;
        ip(&format!("addr add {FAR_ROUTED}/32 dev far0"))?;
        ip("link set far0 up")
    })?;
    warm_up(&far)?;
    Ok(far)
}

/// Waits until a datagram has passed the cable. A device drops packets until the kernel has activated it, some time
/// after both ends are up. If it drops the neighbour request, the kernel repeats that after a second, and all
/// datagrams wait for it.
fn warm_up(far: &Far) -> io::Result<()> {
    let there = far.enter(|| UdpSocket::bind((FAR, 0)))?;
    // Longer than the kernel keeps a datagram that waits for the neighbour's address. So there is never a second one
    // on the way, which would arrive after the last receive and cause an ICMP error.
    there.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (here, begin) = (UdpSocket::bind((NEAR, 0))?, Instant::now());
    loop {
        here.send_to(b"anybody there?", there.local_addr()?)?;
        match there.recv(&mut [0; 16]) {
            Ok(_) => return Ok(()),
            Err(error) => assert!(begin.elapsed() < TIME_LIMIT, "nothing gets through: {error}"),
        }
    }
}

impl Far {
    fn new() -> io::Result<Self> {
        let make = || {
            // SAFETY: no pointers; it changes the namespace of this thread only.
            match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
                0 => File::open("/proc/thread-self/ns/net").map(Self),
                _ => Err(io::Error::last_os_error()),
            }
        };
        thread::scope(|scope| scope.spawn(make).join().expect("it does not panic"))
    }

    /// Runs `call` at the far end. Sockets that it makes stay there.
    pub fn enter<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
        let call = || {
            // SAFETY: an open descriptor and no pointers; it changes this thread only.
            let entered = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(entered, 0, "the namespace is there: {}", io::Error::last_os_error());
            call()
        };
        thread::scope(|scope| scope.spawn(call).join()).unwrap_or_else(|panic| {
            std::panic::resume_unwind(panic);
        })
    }
}

/// Runs `ip` in this thread's namespace.
pub fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {arguments}: {}", message.trim())))
}

/// Makes the kernel compute the device's checksums, like `ethtool -K DEVICE tx off`.
pub fn without_checksum_offload(device: &str) -> io::Result<()> {
    /// ETHTOOL_STXCSUM and ETHTOOL_GTXCSUM (include/uapi/linux/ethtool.h).
    const SET: u32 = 0x17;
    const GET: u32 = 0x16;
    ethtool(device, [SET, 0])?;
    match ethtool(device, [GET, 1])? {
        0 => Ok(()),
        _ => Err(io::Error::other("the device does not do without")),
    }
}

/// Makes a request of a `struct ethtool_value`, a command and its value, and returns the value.
fn ethtool(device: &str, mut request: [u32; 2]) -> io::Result<u32> {
    const SIOCETHTOOL: u32 = 0x8946;
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0))?;
    // SAFETY: ifreq is a C struct of bytes, numbers and raw pointers, for which all zeros are valid.
    let mut interface: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in interface.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as _;
    }
    interface.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: it reads an ifreq, and reads and writes the ethtool_value that this points to; both outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut interface) } {
        0 => Ok(request[1]),
        _ => Err(io::Error::last_os_error()),
    }
}

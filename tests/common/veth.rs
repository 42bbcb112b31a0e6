//! Network namespaces, connected by pairs of virtual Ethernet devices.
//!
//! A namespace has no name and lives as long as its [`Host`], so nothing is left behind however the test ends.

// Each test binary uses only a part.
#![allow(dead_code)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
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

/// A network namespace.
pub struct Host(File);

impl Host {
    /// A new namespace with loopback up, after these `ip` commands. Prints why and returns `None` if the process may
    /// not make one or there is no `ip`.
    pub fn new(commands: &[&str]) -> Option<Self> {
        let made = thread::spawn(|| {
            // SAFETY: it takes no pointers; it changes the namespace of this thread only.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net")
        });
        let made = made.join().expect("it does not panic");
        let host = match made {
            Ok(file) => Self(file),
            Err(error) => {
                skip(format_args!("no network namespace: {error}"));
                return None;
            }
        };
        if let Err(error) = Command::new("ip").arg("-V").output() {
            skip(format_args!("no ip tool: {error}"));
            return None;
        }
        if !std::path::Path::new("/proc/sys/net/ipv6/conf").exists() {
            skip("the kernel has no settings of its devices");
            return None;
        }
        host.ip(&["link set lo up"]);
        host.ip(commands);
        Some(host)
    }

    /// Runs `call` in a thread inside the namespace. Sockets that it makes stay there.
    pub fn enter<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
        let fd = self.0.as_raw_fd();
        let entered = move || {
            // SAFETY: it takes no pointers; it changes the namespace of this thread only.
            let result = unsafe { libc::setns(fd, libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "{}", io::Error::last_os_error());
            call()
        };
        thread::scope(|scope| {
            scope.spawn(entered).join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Runs `ip` commands in the namespace.
    pub fn ip(&self, commands: &[&str]) {
        let output = self.enter(|| {
            let mut ip = Command::new("ip")
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut stdin = ip.stdin.take().expect("it is a pipe");
            stdin.write_all((commands.join("\n") + "\n").as_bytes())?;
            drop(stdin);
            ip.wait_with_output()
        });
        let output = output.expect("ip runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {commands:?}: {errors}");
    }

    /// Writes a setting under /proc/sys/net.
    pub fn set(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/{name}");
        let written = self.enter(|| fs::write(&path, value));
        written.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// A socket in the namespace, with a time limit on receives.
    pub fn bind(&self, addr: &str) -> UdpSocket {
        let socket = self.enter(|| UdpSocket::bind(addr)).expect("an address of this host");
        socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        socket.set_write_timeout(Some(TIME_LIMIT)).expect("a timeout");
        socket
    }

    /// Connects `device` here to `far_device` there with a virtual cable.
    pub fn cable(&self, device: &str, far: &Self, far_device: &str) {
        self.ip(&[&far.cable_from(device, far_device)]);
    }

    /// The `ip` command that lays a cable from `device` elsewhere to `own_device` here.
    fn cable_from(&self, device: &str, own_device: &str) -> String {
        let here = format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        format!("link add {device} type veth peer name {own_device} netns {here}")
    }
}

/// The namespace at the far end. Dropping it removes the namespace and the devices.
pub type Far = Host;

/// Runs `test` at the near end, in a namespace of its own. Prints why and does nothing if the process may not make
/// one.
pub fn with_far_end(test: impl FnOnce(Far) + Send) {
    in_namespace(|| {
        let Some(far) = Host::new(&[]) else { return };
        match connect(&far) {
            Ok(()) => test(far),
            Err(error) => skip(format_args!("no pair of devices: {error}")),
        }
    });
}

fn connect(far: &Host) -> io::Result<()> {
    ip(&far.cable_from(DEVICE, FAR_DEVICE))?;
    ip(&format!("addr add {NEAR}/24 dev {DEVICE}"))?;
    ip(&format!("link set {DEVICE} up"))?;
    far.ip(&[
        &format!("addr add {FAR}/24 dev {FAR_DEVICE}"),
        &format!("addr add {FAR_ROUTED}/32 dev {FAR_DEVICE}"),
        &format!("link set {FAR_DEVICE} up"),
    ]);
    warm_up(far)
}

/// Waits until a datagram has passed the cable. A device drops packets until the kernel has activated it, some time
/// after both ends are up. If it drops the neighbour request, the kernel repeats that after a second, and all
/// datagrams wait for it.
fn warm_up(far: &Host) -> io::Result<()> {
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

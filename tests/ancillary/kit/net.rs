//! Network namespaces: hosts, and a router between them.
//!
//! A namespace has no name and lives as long as its [`Host`], so nothing is left behind however the test ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{TIME_LIMIT, bind, skip};

/// A network namespace.
pub struct Host(File);

impl Host {
    /// A new namespace with loopback up, after these `ip` commands. Prints why and returns `None` if the process may
    /// not make one or there is no `ip`.
    pub fn new(test: &str, commands: &[&str]) -> Option<Self> {
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
                skip(test, format_args!("no network namespace: {error}"));
                return None;
            }
        };
        if let Err(error) = Command::new("ip").arg("-V").output() {
            skip(test, format_args!("no ip tool: {error}"));
            return None;
        }
        host.ip(&["link set lo up"]);
        host.ip(commands);
        Some(host)
    }

    /// Runs `call` in a thread inside the namespace. Sockets that it makes stay there.
    pub fn within<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
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
        let output = self.within(|| {
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
        let written = self.within(|| fs::write(&path, value));
        written.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// A socket in the namespace.
    pub fn bind(&self, addr: &str) -> UdpSocket {
        let addr: SocketAddr = addr.parse().expect("an address with a port");
        self.within(|| bind(addr))
    }

    /// Connects `device` here to `far_device` there with a virtual cable.
    pub fn cable(&self, device: &str, far: &Self, far_device: &str) {
        let there = format!("/proc/{}/fd/{}", std::process::id(), far.0.as_raw_fd());
        let add = format!("link add {device} type veth peer name {far_device} netns {there}");
        self.ip(&[add.as_str()]);
    }
}

/// A client, a router and a server. The MTU between router and server is 1,280 bytes.
///
/// ```text
/// client c 10.9.1.1 --- 10.9.1.254 r0 router r1 10.9.2.254 --- 10.9.2.1, 10.9.2.2 s server
///       fd09:1::1 --- fd09:1::fe               fd09:2::fe --- fd09:2::1, fd09:2::2
/// ```
pub struct Route {
    pub client: Host,
    pub router: Host,
    pub server: Host,
}

impl Route {
    /// Prints why and returns `None` if the network cannot be made.
    pub fn new(test: &str) -> Option<Self> {
        let new = || Host::new(test, &[]);
        let (client, router, server) = (new()?, new()?, new()?);
        for host in [&client, &router, &server] {
            // Addresses are usable at once, without duplicate address detection.
            for path in ["ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_dad"] {
                host.set(path, "0");
            }
            // Each rejected datagram gets an ICMP error. (For IPv4 through the mask of limited types: up to Linux
            // 6.12, a rate limit of 0 empties the bucket that `ip_error` uses too.)
            for path in ["ipv4/icmp_ratemask", "ipv6/icmp/ratelimit"] {
                host.set(path, "0");
            }
        }
        for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            router.set(path, "1");
        }
        client.cable("c", &router, "r0");
        router.cable("r1", &server, "s");
        for (host, device) in [(&client, "c"), (&router, "r0"), (&router, "r1"), (&server, "s")] {
            // The kernel soon repeats a neighbour request that was sent before the device was up.
            for family in ["ipv4", "ipv6"] {
                host.set(&format!("{family}/neigh/{device}/retrans_time_ms"), "20");
            }
        }
        client.ip(&[
            "addr add 10.9.1.1/24 dev c",
            "addr add fd09:1::1/64 dev c nodad",
            "link set c up",
        ]);
        router.ip(&[
            "addr add 10.9.1.254/24 dev r0",
            "addr add fd09:1::fe/64 dev r0 nodad",
            "addr add 10.9.2.254/24 dev r1",
            "addr add fd09:2::fe/64 dev r1 nodad",
            "link set r0 up",
            "link set r1 mtu 1280",
            "link set r1 up",
        ]);
        server.ip(&[
            "addr add 10.9.2.1/24 dev s",
            "addr add 10.9.2.2/24 dev s",
            "addr add fd09:2::1/64 dev s nodad",
            "addr add fd09:2::2/64 dev s nodad",
            "link set s up",
            "route add default via 10.9.2.254",
            "route add ::/0 via fd09:2::fe",
        ]);
        client.ip(&["route add default via 10.9.1.254", "route add ::/0 via fd09:1::fe"]);
        warm_up((&client, "10.9.1.1:0"), (&server, "10.9.2.1:0"));
        warm_up((&client, "[fd09:1::1]:0"), (&server, "[fd09:2::1]:0"));
        Some(Self { client, router, server })
    }
}

/// Sends until a datagram arrives. Then devices are up and neighbours are known.
pub fn warm_up((from, from_addr): (&Host, &str), (to, to_addr): (&Host, &str)) {
    let (from, to) = (from.bind(from_addr), to.bind(to_addr));
    to.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let (dest, begin) = (super::addr(&to), Instant::now());
    loop {
        from.send_to(b"anybody there?", dest).expect("there is a route");
        match to.recv(&mut [0; 16]) {
            Ok(_) => return,
            Err(error) => assert!(begin.elapsed() < TIME_LIMIT, "nothing gets through: {error}"),
        }
    }
}

//! Where the servers run: on loopback, or each in a network namespace of its own, joined to the load's namespace by a pair
//! of virtual Ethernet devices.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;

/// The network between load and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Loopback,
    /// MTU 1500. Needs the right to make network namespaces, and the program `ip`.
    Veth,
}

impl Network {
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth => "veth",
        }
    }

    /// Runs `call` where the load runs: for `Veth`, on a thread in a namespace of its own, which ends with the thread.
    /// Without the right to make namespaces, prints why and does nothing.
    pub fn enter(self, call: impl FnOnce(Self) -> io::Result<()> + Send) -> io::Result<()> {
        if self == Self::Loopback {
            return call(self);
        }
        on_a_thread(|| {
            let tried = leave_namespace().and_then(|_| ip("link set lo up"));
            // Finds out whether the process may make devices. No server's devices have these names.
            match tried.and_then(|()| ip("link add tried0 type veth peer name tried1")) {
                Ok(()) => call(self),
                Err(error) => {
                    println!("skipped: echo over veth: no devices in a namespace: {error}");
                    Ok(())
                }
            }
        })
    }

    /// Runs `start` with the address of server `number`: for `Veth`, at the far end of a pair of devices. Numbers are
    /// not reused, as the devices of an ended server take a while to vanish.
    pub fn place<T: Send>(
        self,
        number: usize,
        start: impl FnOnce(Ipv4Addr) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        if self == Self::Loopback {
            return start(Ipv4Addr::LOCALHOST);
        }
        let addr = |host| Ipv4Addr::new(10, 77, number as u8, host);
        let far = on_a_thread(leave_namespace)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
        ip(&format!("link add near{number} type veth peer name far0 netns {path}"))?;
        ip(&format!("addr add {}/24 dev near{number}", addr(1)))?;
        ip(&format!("link set near{number} up"))?;
        on_a_thread(|| {
            // SAFETY: no pointers. The call changes the namespace of this thread alone.
            if unsafe { libc::setns(far.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            ip(&format!("addr add {}/24 dev far0", addr(2)))?;
            ip("link set far0 up")?;
            start(addr(2))
        })
    }
}

fn on_a_thread<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    let done = thread::scope(|scope| scope.spawn(call).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Moves this thread, and all that it starts later, to a new network namespace. Returns the namespace.
fn leave_namespace() -> io::Result<File> {
    // SAFETY: no pointers. The call changes the namespace of this thread alone.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => File::open("/proc/thread-self/ns/net"),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs the program `ip` in this thread's namespace.
fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {arguments}: {}", message.trim())))
}

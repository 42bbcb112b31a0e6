//! Where the servers are: at loopback, or each in a network namespace of its own, joined to the
//! load's namespace by a pair of virtual Ethernet devices.

use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::thread;

/// What the load's side sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Loopback,
    /// MTU 1500. Needs root, or who may make namespaces, and the program `ip`.
    Veth,
}

impl Network {
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth => "veth",
        }
    }

    /// Runs `call` where the load is to be: for `Veth` on a thread in a namespace of its own, which
    /// goes with it. Says so and does nothing where there can be none.
    pub fn enter(self, call: impl FnOnce(&Self) -> io::Result<()> + Send) -> io::Result<()> {
        if self == Self::Loopback {
            return call(&self);
        }
        let apart = || {
            let tried = leave_namespace().and_then(|()| ip("link set lo up"));
            // The devices are tried with a name that nobody takes.
            let tried = tried.and_then(|()| ip("link add tried0 type veth peer name tried1"));
            match tried {
                Ok(()) => call(&self),
                Err(error) => {
                    println!("skipped: echo over veth: no devices in a namespace: {error}");
                    Ok(())
                }
            }
        };
        thread::scope(|scope| scope.spawn(apart).join()).unwrap_or_else(|panic| {
            std::panic::resume_unwind(panic);
        })
    }

    /// The argument that places the server of this number.
    pub fn far_side(self, number: usize) -> String {
        match self {
            Self::Loopback => "loopback".into(),
            Self::Veth => number.to_string(),
        }
    }

    /// Lays the cable to a server that is ready for it. Each needs a number of its own: the devices
    /// of one that has ended go with its namespace, but not at once.
    pub fn connect(self, pid: u32, number: usize) -> io::Result<()> {
        if self == Self::Loopback {
            return Ok(());
        }
        let device = format!("near{number}");
        ip(&format!("link add {device} type veth peer name far0 netns {pid}"))?;
        ip(&format!("addr add {}/24 dev {device}", addr(number, 1)))?;
        ip(&format!("link set {device} up"))
    }
}

/// The server's side, in its own process.
pub struct Side {
    /// Nothing at loopback.
    number: Option<usize>,
}

impl Side {
    /// Goes where [`Network::far_side`] says.
    pub fn enter(word: &str) -> io::Result<Self> {
        if word == "loopback" {
            return Ok(Self { number: None });
        }
        let number = word.parse().map_err(io::Error::other)?;
        leave_namespace()?;
        Ok(Self { number: Some(number) })
    }

    /// The address to serve at, once the cable is there.
    pub fn raise(&self) -> io::Result<Ipv4Addr> {
        let Some(number) = self.number else { return Ok(Ipv4Addr::LOCALHOST) };
        let addr = addr(number, 2);
        ip(&format!("addr add {addr}/24 dev far0"))?;
        ip("link set far0 up")?;
        Ok(addr)
    }
}

fn addr(number: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, number as u8, host)
}

/// Moves this thread, and what it starts from now on, to a new network namespace.
fn leave_namespace() -> io::Result<()> {
    // SAFETY: no pointers; the namespace changes for this thread alone.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
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

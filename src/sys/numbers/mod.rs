//! The numbers of this platform's control messages and socket options.
//!
//! [`defaults`] lists every number that the crate knows, each as `None`. A platform's file imports all of them, and defines
//! only those that the platform has; `bsd` defines those that its systems share. Linux's and Windows' come from libc and
//! windows-sys. The others are those of the headers that a file names, so that tests on any machine read them; [`asserts`]
//! compares them with libc's.
//!
//! # To support a new Unix
//!
//! 1. A file here with the numbers of the system's headers, its lines below, and in [`asserts`] each number that libc has,
//!    too. Without a file everything works that needs no number. `V4_RULES` says what a source does to a bound socket.
//! 2. In `build.rs`: `sa_len` if a `sockaddr` begins with its length, `mmsg_calls` if the C library has the calls.
//! 3. `src/guide/platforms.md` and `.ci/cross`: whether it is tested or only built.

// The types of libc's constants differ between systems, and no platform uses every number.
#![allow(clippy::unnecessary_cast, dead_code, unused_imports)]

#[cfg(any(target_vendor = "apple", test))]
pub(crate) mod apple;
#[cfg(unix)]
mod asserts;
#[cfg(any(sa_len, test))]
mod bsd;
mod defaults;
#[cfg(any(target_os = "freebsd", target_os = "dragonfly", test))]
pub(crate) mod freebsd;
#[cfg(linux_like)]
mod linux;
#[cfg(any(target_os = "netbsd", test))]
pub(crate) mod netbsd;
#[cfg(any(target_os = "openbsd", test))]
pub(crate) mod openbsd;
#[cfg(windows)]
mod windows;

#[cfg(target_vendor = "apple")]
use apple as platform;
#[cfg(not(any(windows, linux_like, sa_len)))]
use defaults as platform;
#[cfg(any(target_os = "freebsd", target_os = "dragonfly"))]
use freebsd as platform;
#[cfg(linux_like)]
use linux as platform;
#[cfg(target_os = "netbsd")]
use netbsd as platform;
#[cfg(target_os = "openbsd")]
use openbsd as platform;
#[cfg(windows)]
use windows as platform;

pub(crate) use platform::*;

/// The maximum number of messages in one system call: `UIO_MAXIOV` in the Linux kernel, which truncates longer batches
/// without an error (`__sys_sendmmsg` in net/socket.c).
pub(crate) const MAX_BATCH: usize = 1024;

/// The maximum number of buffers of one message: `UIO_MAXIOV` on Linux, `IOV_MAX` on other Unixes.
pub(crate) const MAX_BUFFERS: usize = 1024;

/// The flags of a call that does not wait, and of one that leaves the message in the socket.
#[cfg(unix)]
pub(crate) use libc::{MSG_DONTWAIT, MSG_PEEK};

/// `int[]`: descriptors that a Unix peer passes.
#[cfg(unix)]
pub(crate) const RIGHTS: Option<CmsgType> = Some((libc::SOL_SOCKET, libc::SCM_RIGHTS));
#[cfg(windows)]
pub(crate) const RIGHTS: Option<CmsgType> = None;

/// Address families and errors. Windows: ws2def.h, winsock2.h.
#[cfg(unix)]
pub(crate) use libc::{AF_INET, AF_INET6, AF_UNIX, EINVAL, EMSGSIZE};
#[cfg(windows)]
pub(crate) const AF_INET: i32 = windows_sys::Win32::Networking::WinSock::AF_INET as i32;
#[cfg(windows)]
pub(crate) const AF_INET6: i32 = windows_sys::Win32::Networking::WinSock::AF_INET6 as i32;
#[cfg(windows)]
pub(crate) const AF_UNIX: i32 = windows_sys::Win32::Networking::WinSock::AF_UNIX as i32;
/// The size of a `sockaddr_un`. Windows: afunix.h.
#[cfg(unix)]
pub(crate) const UNIX_ADDR_LEN: usize = size_of::<libc::sockaddr_un>();
#[cfg(windows)]
pub(crate) const UNIX_ADDR_LEN: usize = 110;

/// What an IPv4 send that names a source or an interface does, on an IPv6 socket or on a socket with an address of its own: one
/// that is bound to a single address, or connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceRule {
    /// It sends from there.
    Allowed,
    /// It fails, even if it names the socket's own address.
    Rejected,
    /// It takes the address and the peer away from the socket. An interface overrides a source.
    Unbinds,
    /// An IPv6 socket ignores both. An IPv4 socket sends from there.
    IgnoredByV6,
}

/// What a system does with IPv4's control messages and options on some sockets.
#[derive(Clone, Copy)]
pub(crate) struct V4Rules {
    pub(crate) source: SourceRule,
    /// Where an IPv6 socket takes no IPv4 options: those of IPv6 that also report IPv4 datagrams.
    pub(crate) reported_by_v6: Option<&'static [Option<OptionName>]>,
}

/// A control message's originating protocol and type (`cmsg_level`, `cmsg_type`).
pub(crate) type CmsgType = (i32, i32);
/// A socket option's level and name.
pub(crate) type OptionName = (i32, i32);

//! The parts that differ between systems. Each file has the same items:
//!
//! - `SPREADS`: whether several sockets on an address share its datagrams;
//! - `SHARES_WHEN_BOUND`: whether a socket that is bound already can begin to share its address;
//! - `share`: lets a socket share its address;
//! - `is_udp`, `is_shared`, `scope`, `cookie`: whether sockets can be one group;
//! - `NO_PROGRAMS`: the number of the error of `attach_cbpf` where the system spreads by flow alone;
//! - `attach_cbpf`, `detach`, `wait_for_deliveries`, `set_affinity`: on Linux only.

#[cfg_attr(any(target_os = "linux", target_os = "android"), path = "linux.rs")]
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "other.rs")]
mod native;

pub(crate) use native::*;

/// An instruction of a classic BPF program: `struct sock_filter` (include/uapi/linux/filter.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// Instructions to skip if a condition holds, and if it does not.
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) k: u32,
}

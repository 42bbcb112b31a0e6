//! Compares the numbers that are written by hand with libc's, while the crate compiles for their system.

use super::*;

/// Whether a number is libc's.
const fn same(number: Option<(i32, i32)>, level: i32, name: i32) -> bool {
    matches!(number, Some((l, n)) if l == level && n == name)
}

/// Asserts that each number is libc's of that level and name.
#[allow(unused_macros, reason = "a system without a file of numbers has none to compare")]
macro_rules! libc {
    ($($number:ident: $level:ident $name:ident;)*) => {
        $(const _: () = assert!(
            same($number, libc::$level as i32, libc::$name as i32),
            stringify!($number differs from $name)
        );)*
    };
}

#[cfg(sa_len)]
libc! {
    DSTADDR_V4: IPPROTO_IP IP_RECVDSTADDR;
    PKTINFO_V6: IPPROTO_IPV6 IPV6_PKTINFO;
    TCLASS: IPPROTO_IPV6 IPV6_TCLASS;
    TIMESTAMP_US: SOL_SOCKET SCM_TIMESTAMP;
    RECV_PKTINFO_V6: IPPROTO_IPV6 IPV6_RECVPKTINFO;
    RECV_TCLASS: IPPROTO_IPV6 IPV6_RECVTCLASS;
    RECV_TIMESTAMP: SOL_SOCKET SO_TIMESTAMP;
    FRAGMENTATION_V6: IPPROTO_IPV6 IPV6_DONTFRAG;
}

// libc lacks these two on NetBSD and OpenBSD.
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "dragonfly"))]
libc! {
    HOP_LIMIT: IPPROTO_IPV6 IPV6_HOPLIMIT;
    RECV_HOP_LIMIT: IPPROTO_IPV6 IPV6_RECVHOPLIMIT;
    TTL: IPPROTO_IP IP_RECVTTL;
    RECV_TTL: IPPROTO_IP IP_RECVTTL;
    SEND_TOS: IPPROTO_IP IP_TOS;
}

#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
libc! {
    TOS: IPPROTO_IP IP_RECVTOS;
    RECV_TOS: IPPROTO_IP IP_RECVTOS;
    FRAGMENTATION_V4: IPPROTO_IP IP_DONTFRAG;
}

#[cfg(target_vendor = "apple")]
libc! {
    PKTINFO_V4: IPPROTO_IP IP_PKTINFO;
    RECV_PKTINFO_V4: IPPROTO_IP IP_PKTINFO;
}

#[cfg(any(target_os = "freebsd", target_os = "dragonfly", target_os = "openbsd"))]
libc! {
    SEND_SRCADDR_V4: IPPROTO_IP IP_SENDSRCADDR;
    RECV_DSTADDR_V4: IPPROTO_IP IP_RECVDSTADDR;
}

#[cfg(target_os = "freebsd")]
libc! {
    TIMESTAMP_NS: SOL_SOCKET SCM_REALTIME;
    TIMESTAMP_CLOCK: SOL_SOCKET SO_TS_CLOCK;
    ORIGINAL_DEST_V4: IPPROTO_IP IP_ORIGDSTADDR;
    ORIGINAL_DEST_V6: IPPROTO_IPV6 IPV6_ORIGDSTADDR;
}
#[cfg(target_os = "freebsd")]
const _: () = assert!(NANOSECONDS == libc::SO_TS_REALTIME);

#[cfg(target_os = "netbsd")]
libc! {
    PKTINFO_V4: IPPROTO_IP IP_PKTINFO;
    RECV_PKTINFO_V4: IPPROTO_IP IP_RECVPKTINFO;
    RECV_DSTADDR_V4: IPPROTO_IP IP_RECVDSTADDR;
}
// Its multi-message calls store an error in the socket again with each call (`sys_sendmmsg` in sys/kern/uipc_syscalls.c).
#[cfg(target_os = "netbsd")]
const _: () = assert!(!cfg!(mmsg_calls));

#[cfg(linux_like)]
libc! {
    MTU_V4: IPPROTO_IP IP_MTU;
    MTU_V6: IPPROTO_IPV6 IPV6_MTU;
}
#[cfg(linux_like)]
const _: () = assert!(matches!(
    FRAGMENTATION,
    [libc::IP_PMTUDISC_DONT, libc::IP_PMTUDISC_WANT, libc::IP_PMTUDISC_DO, libc::IP_PMTUDISC_PROBE]
));
#[cfg(all(target_os = "linux", not(target_env = "uclibc")))]
libc! {
    GRO: IPPROTO_UDP UDP_GRO;
    SEGMENT: IPPROTO_UDP UDP_SEGMENT;
    CORK: IPPROTO_UDP UDP_CORK;
    TXTIME: SOL_SOCKET SO_TXTIME;
    MEMINFO: SOL_SOCKET SO_MEMINFO;
    MAX_PACING_RATE: SOL_SOCKET SO_MAX_PACING_RATE;
}

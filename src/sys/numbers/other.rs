//! Platforms without control messages here: Windows.

pub(crate) use super::absent::*;

/// `WSAEMSGSIZE` (winsock2.h)
pub(crate) const EMSGSIZE: i32 = 10040;
/// `WSAENOBUFS` (winsock2.h)
pub(crate) const ENOBUFS: i32 = 10055;

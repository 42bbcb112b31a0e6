//! Other Unix systems: no control messages.

pub(crate) use super::absent::*;

pub(crate) const EMSGSIZE: i32 = libc::EMSGSIZE;
pub(crate) const ENOBUFS: i32 = libc::ENOBUFS;

//! Socket addresses in the system's own form, owned and borrowed, which are decoded on request.

mod codec;

use std::fmt;
use std::net::SocketAddr;

use crate::sys::UnixAddr;
pub(super) use codec::{NAME_LEN, Name, encode as encode_addr, encode_unix};
use codec::{decode, encode};
pub(crate) use codec::{decode_addr, decode_unix};

/// An address in the system's form, or none; decoded on request.
#[derive(Clone, Copy)]
pub(crate) struct RawAddr {
    name: Name,
    /// Bytes that the address has; 0 for none.
    len: u32,
}

/// A borrowed address in the system's form, whose name and length may be in different places.
#[derive(Clone, Copy)]
pub(crate) struct RawAddrRef<'a> {
    name: &'a Name,
    len: u32,
}

impl RawAddr {
    pub(crate) const NONE: Self = Self { name: [0; NAME_LEN], len: 0 };

    /// An Internet address, or none.
    pub(crate) fn new(addr: Option<&SocketAddr>) -> Self {
        let mut raw = Self::NONE;
        raw.len = addr.map_or(0, |addr| encode(addr, &mut raw.name)) as u32;
        raw
    }

    /// The address of a Unix socket, if it has one (see [`encode_unix`]).
    #[cold]
    pub(crate) fn of_unix(addr: UnixAddr<'_>) -> Option<Self> {
        let mut raw = Self::NONE;
        raw.len = encode_unix(addr, &mut raw.name)? as u32;
        Some(raw)
    }

    /// The bytes of an address that was encoded.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.name[..self.len as usize]
    }

    #[inline]
    pub(crate) fn lend(&self) -> RawAddrRef<'_> {
        RawAddrRef { name: &self.name, len: self.len }
    }

    /// The bytes, for the kernel to write; then call [`set_len`](Self::set_len).
    #[inline]
    pub(crate) fn name_mut(&mut self) -> &mut Name {
        &mut self.name
    }

    /// Sets how many bytes the address has that was received here.
    #[inline]
    pub(crate) fn set_len(&mut self, len: usize) {
        // At most that of a sockaddr_un, which is a few hundred bytes.
        self.len = len as u32;
    }

    /// The bytes, and how many of them the address has.
    pub(super) fn name(&self) -> (&Name, usize) {
        (&self.name, self.len as usize)
    }
}

impl<'a> RawAddrRef<'a> {
    pub(crate) const NONE: Self = Self { name: &[0; NAME_LEN], len: 0 };

    /// The address in the first `len` bytes of `name`.
    #[inline]
    pub(super) fn new(name: &'a Name, len: usize) -> Self {
        Self { name, len: len as u32 } // It fits, as in `set_len`.
    }

    pub(crate) fn to_owned(self) -> RawAddr {
        RawAddr { name: *self.name, len: self.len }
    }

    /// The Internet address, if it is one.
    #[inline]
    pub(crate) fn get(self) -> Option<SocketAddr> {
        decode(self.name, self.len as usize)
    }

    /// The Unix address, if it is one. No address at all is that of an unnamed socket: Linux reports none for it.
    pub(crate) fn unix(self) -> Option<UnixAddr<'a>> {
        decode_unix(self.name.get(..self.len as usize)?)
    }
}

impl fmt::Debug for RawAddrRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(addr) => addr.fmt(f),
            None => self.unix().fmt(f),
        }
    }
}

//! Socket addresses: `sockaddr` bytes, owned and borrowed, decoded lazily.

mod codec;

use std::fmt;
use std::net::SocketAddr;

pub(super) use codec::{NAME_LEN, Name, encode as encode_addr, encode_unix};
use codec::{decode, encode};
pub(crate) use codec::{decode_addr, decode_unix};

use super::unix_addr::UnixAddr;

/// The bytes of an address, or none.
#[derive(Clone, Copy)]
pub(crate) struct RawAddr {
    name: Name,
    /// The length of the address in bytes: 0 for none.
    len: u32,
}

/// A borrowed [`RawAddr`], whose bytes and length may lie in different places.
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

    /// The memory for the kernel to write an address to. Call [`set_len`](Self::set_len) afterwards.
    #[inline]
    pub(crate) fn name_mut(&mut self) -> &mut Name {
        &mut self.name
    }

    /// Sets the length of the address that was received here.
    #[inline]
    pub(crate) fn set_len(&mut self, len: usize) {
        // An address has a few hundred bytes at most.
        self.len = len as u32;
    }

    /// The memory, and the length of the address in it.
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

    /// The Internet address, if it is one.
    #[inline]
    pub(crate) fn get(self) -> Option<SocketAddr> {
        decode(self.name, self.len as usize)
    }

    /// The Unix address, if it is one. Linux reports an unnamed socket as no address at all.
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

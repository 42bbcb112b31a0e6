//! Received descriptors: none, on this system.

use std::iter;
use std::os::windows::io::OwnedSocket;

/// No descriptors.
#[derive(Debug, Default)]
pub(crate) struct ReceivedFds;

impl ReceivedFds {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn begin(&mut self, _: usize) -> &mut Self {
        self
    }

    pub(crate) fn clear(&mut self) {}

    pub(crate) fn extend(&mut self, _: usize, _: impl Iterator<Item = OwnedSocket>) {}

    pub(crate) fn take(&mut self, _: usize) -> impl Iterator<Item = OwnedSocket> {
        iter::empty()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (usize, OwnedSocket)> {
        iter::empty()
    }
}

//! Wires memory into headers for a receive, and reads what the kernel left in them.

use std::io::IoSliceMut;
use std::marker::PhantomData;
use std::slice;

use crate::sys::CONTROL_SPACE;
use crate::sys::addr::{AddrSpace, UNIX_NAME_LEN, UnixName};
use crate::sys::layout::Control;
use crate::sys::native::fds::ReceivedFds;
use crate::sys::native::header::Header;

/// Headers wired for a receive, and memory for more.
///
/// Invariant, which makes the system call on them sound: of each of the first `count` headers, name,
/// buffers and control data are memory that is writable by nobody else for `'a`, with the lengths
/// that stand beside the pointers.
pub(crate) struct RecvHeaders<'a> {
    pub(super) headers: &'a mut [Header],
    pub(super) count: usize,
    /// Memory for the addresses of messages that bring none of their own.
    pub(super) names: slice::IterMut<'a, UnixName>,
    pub(super) controls: slice::IterMut<'a, Control>,
    /// Where descriptors go that come with messages, if they are accepted; else they are closed.
    pub(super) fds: &'a mut ReceivedFds,
    pub(super) accept_fds: bool,
    pub(super) buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> RecvHeaders<'a> {
    /// Points the next header at a message's buffers and at memory for its source. Its control data
    /// goes into `control`, or into the storage's own memory.
    #[inline]
    pub(crate) fn push(
        &mut self,
        buffers: &'a mut [IoSliceMut<'_>],
        source: AddrSpace<'a>,
        control: Option<&'a mut [u8; CONTROL_SPACE]>,
    ) {
        let Some((header, _, own)) = self.next() else { return };
        wire(header, buffers, source.into_name(), control.unwrap_or(&mut own.0));
    }

    /// Points the next header at one buffer. Source and control data go into the storage's own memory.
    #[inline]
    pub(crate) fn push_buffer(&mut self, buffer: &'a mut IoSliceMut<'_>) {
        let Some((header, name, control)) = self.next() else { return };
        wire(header, slice::from_mut(buffer), name, &mut control.0);
    }

    /// Accepts descriptors, for all messages.
    pub(crate) fn accept_fds(&mut self) {
        self.accept_fds = true;
    }

    #[inline]
    pub(in crate::sys) fn len(&self) -> usize {
        self.count
    }

    /// For the system call, after which the descriptors that came are to be owned.
    #[inline]
    pub(in crate::sys) fn as_mut(&mut self) -> (&mut [Header], Option<&mut ReceivedFds>) {
        let fds = self.accept_fds.then_some(&mut *self.fds);
        (&mut self.headers[..self.count], fds)
    }

    /// The next header and its memory. Whoever pushes has reserved it.
    #[inline]
    fn next(&mut self) -> Option<(&mut Header, &'a mut UnixName, &'a mut Control)> {
        let header = self.headers.get_mut(self.count);
        debug_assert!(header.is_some(), "more messages than were reserved");
        let next = (header?, self.names.next()?, self.controls.next()?);
        self.count += 1;
        Some(next)
    }
}

/// Points a header at all of this memory, and sets every field that the kernel reads or writes.
#[inline]
fn wire(header: &mut Header, buffers: &mut [IoSliceMut<'_>], name: &mut [u8], control: &mut [u8]) {
    header.set_buffers(buffers.as_mut_ptr().cast(), buffers.len());
    header.set_name(name.as_mut_ptr(), name.len());
    header.set_control(control.as_mut_ptr(), control.len());
    header.clear_flags();
}

/// Sets the fields that a receive overwrites, of a header whose name is a [`UnixName`] and whose
/// control data a [`Control`].
#[inline]
pub(super) fn reset(header: &mut Header) {
    let ((name, _), (control, _)) = (header.name(), header.control());
    header.set_name(name, UNIX_NAME_LEN);
    header.set_control(control, CONTROL_SPACE);
    header.clear_flags();
}

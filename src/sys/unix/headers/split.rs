//! The datagrams of a GSO batch, wired one by one from its header.

use std::io;
use std::ptr;

use libc::iovec;

use super::WiredSends;
use crate::sys::unix::header::Header;
use crate::sys::unix::zeroed::Zeroed;
use crate::sys::{GsoBatch, MAX_BUFFERS, MAX_SEGMENTS};

/// Memory for the datagrams of one batch of up to [`MAX_SEGMENTS`], allocated when the first is
/// rejected. A message with a segment size may have more, and takes several calls.
pub(super) struct Split {
    headers: Zeroed<Header>,
    iovecs: Zeroed<iovec>,
}

impl Split {
    pub(super) const fn new() -> Self {
        Self { headers: Zeroed::empty(), iovecs: Zeroed::empty() }
    }

    /// Makes room, if there is none.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(super) fn reserve(&mut self) -> io::Result<()> {
        if self.headers.is_empty() {
            // Each datagram but the first may begin within a buffer.
            self.iovecs = Zeroed::try_new(MAX_BUFFERS + MAX_SEGMENTS)?;
            self.headers = Zeroed::try_new(MAX_SEGMENTS)?;
        }
        Ok(())
    }

    /// Points headers at the datagrams of a batch from number `first` on, up to the capacity but at least
    /// one, if there are any.
    ///
    /// `whole` is the batch's header, of whose control data the first `segment_control` bytes ask for
    /// the segmentation; `buffers` are those that it points to.
    pub(super) fn wire<'a>(
        &'a mut self,
        whole: &libc::msghdr,
        segment_control: usize,
        buffers: &[iovec],
        batch: &GsoBatch,
        first: usize,
    ) -> WiredSends<'a> {
        let row = self.iovecs.as_mut_ptr();
        let mut rest = Rest::new(buffers, batch.offset(first));
        let (mut count, mut used) = (0, 0);
        for (header, i) in self.headers.iter_mut().zip(first..batch.datagrams()) {
            let len = batch.offset(i + 1) - batch.offset(i);
            let Some(iovecs) = rest.split_to(len, &mut self.iovecs[used..]) else { break };
            let hdr = &mut header.msg_hdr;
            hdr.msg_name = whole.msg_name;
            hdr.msg_namelen = whole.msg_namelen;
            hdr.msg_iov = row.wrapping_add(used);
            hdr.msg_iovlen = iovecs as _;
            let control_len = whole.msg_controllen as usize - segment_control;
            let control = whole.msg_control.cast::<u8>().wrapping_add(segment_control);
            // Some systems check the pointer alone.
            hdr.msg_control = if control_len == 0 { ptr::null_mut() } else { control.cast() };
            hdr.msg_controllen = control_len as _;
            hdr.msg_flags = 0;
            count += 1;
            used += iovecs;
        }
        WiredSends { headers: &mut self.headers[..count] }
    }
}

/// What is left of a row of buffers.
struct Rest<'b> {
    buffers: &'b [iovec],
    /// Bytes of the first that are gone.
    gone: usize,
}

impl<'b> Rest<'b> {
    /// All but the first `skip` bytes.
    fn new(mut buffers: &'b [iovec], mut skip: usize) -> Self {
        while let Some((_, rest)) = buffers.split_first().filter(|(first, _)| first.iov_len <= skip)
        {
            skip -= buffers[0].iov_len;
            buffers = rest;
        }
        Self { buffers, gone: skip }
    }

    /// Takes the next `len` bytes and writes where they are into `row`. Gives the number of buffers
    /// that they lie in; `None` if `row` is too short.
    fn split_to(&mut self, mut len: usize, row: &mut [iovec]) -> Option<usize> {
        let mut used = 0;
        while let (1.., Some((first, rest))) = (len, self.buffers.split_first()) {
            let taken = len.min(first.iov_len - self.gone);
            if taken > 0 {
                let part = row.get_mut(used)?;
                part.iov_base = first.iov_base.cast::<u8>().wrapping_add(self.gone).cast();
                part.iov_len = taken;
                used += 1;
            }
            len -= taken;
            self.gone += taken;
            if self.gone == first.iov_len {
                (self.buffers, self.gone) = (rest, 0);
            }
        }
        Some(used)
    }
}

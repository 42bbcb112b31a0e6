//! The datagrams of a GSO batch, wired one by one from its header.

use std::io;

use super::WiredSends;
use crate::sys::native::header::{Buffer, Header};
use crate::sys::zeroed::Zeroed;
use crate::sys::{GsoBatch, MAX_BUFFERS, MAX_SEGMENTS};

/// Memory for the datagrams of one batch of up to [`MAX_SEGMENTS`], allocated when the first is
/// rejected. A message with a segment size may have more, and takes several calls.
pub(super) struct Split {
    headers: Zeroed<Header>,
    iovecs: Zeroed<Buffer>,
}

impl Split {
    pub(super) const fn new() -> Self {
        Self { headers: Zeroed::empty(), iovecs: Zeroed::empty() }
    }

    /// Allocates the memory, if that has not happened yet.
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
        whole: &Header,
        segment_control: usize,
        buffers: &[Buffer],
        batch: &GsoBatch,
        first: usize,
    ) -> WiredSends<'a> {
        let row = self.iovecs.as_mut_ptr();
        let mut rest = Rest::new(buffers, batch.offset(first));
        let (mut count, mut used) = (0, 0);
        for (header, i) in self.headers.iter_mut().zip(first..batch.datagrams()) {
            let len = batch.offset(i + 1) - batch.offset(i);
            let Some(iovecs) = rest.split_to(len, &mut self.iovecs[used..]) else { break };
            let (name, name_len) = whole.name();
            header.set_name(name, name_len);
            header.set_buffers(row.wrapping_add(used), iovecs);
            let (control, control_len) = whole.control();
            header
                .set_control(control.wrapping_add(segment_control), control_len - segment_control);
            header.clear_flags();
            count += 1;
            used += iovecs;
        }
        WiredSends { headers: &mut self.headers[..count] }
    }
}

/// What is left of a row of buffers.
struct Rest<'b> {
    buffers: &'b [Buffer],
    /// Bytes of the first that are gone.
    gone: usize,
}

impl<'b> Rest<'b> {
    /// All but the first `skip` bytes.
    fn new(mut buffers: &'b [Buffer], mut skip: usize) -> Self {
        while let Some((_, rest)) = buffers.split_first().filter(|(first, _)| first.len() <= skip) {
            skip -= buffers[0].len();
            buffers = rest;
        }
        Self { buffers, gone: skip }
    }

    /// Takes the next `len` bytes and writes where they are into `row`. Returns the number of buffers
    /// that they lie in; `None` if `row` is too short.
    fn split_to(&mut self, mut len: usize, row: &mut [Buffer]) -> Option<usize> {
        let mut used = 0;
        while let (1.., Some((first, rest))) = (len, self.buffers.split_first()) {
            let taken = len.min(first.len() - self.gone);
            if taken > 0 {
                let part = row.get_mut(used)?;
                *part = Buffer::new(first.start().wrapping_add(self.gone), taken);
                used += 1;
            }
            len -= taken;
            self.gone += taken;
            if self.gone == first.len() {
                (self.buffers, self.gone) = (rest, 0);
            }
        }
        Some(used)
    }
}

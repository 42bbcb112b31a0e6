//! Receives into the spare capacity of [`BufMut`]s (feature `bytes`).

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::slice;

use bytes::BufMut;

use crate::recv::message::{Message, with_message};
use crate::sys::{RecvFlags, RecvStorage, Taken, WiredRecvs};

/// Receives by `recv_slices` of a socket that is not the kernel's.
type RecvSlices<'r> = &'r mut dyn FnMut(
    &mut [IoSliceMut<'_>],
    &mut dyn FnMut(usize, Message<'_>),
) -> io::Result<usize>;

/// Buffers of one type, whichever it is.
pub trait Buffers {
    /// The shortest chunk of those that a call is offered.
    fn shortest(&mut self) -> Option<usize>;

    /// Receives a message into each of the first buffers by `call`, a system call.
    fn receive(
        &mut self,
        headers: &mut RecvStorage,
        call: &mut dyn FnMut(WiredRecvs<'_>) -> io::Result<Taken>,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<Taken>;

    /// Receives into memory of its own, and copies.
    fn receive_by(
        &mut self,
        recv: RecvSlices<'_>,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize>;
}

/// The buffers of a call, each with a chunk of at least `min_len` bytes.
pub(crate) struct Bufs<'b, B> {
    pub(crate) bufs: &'b mut [B],
    pub(crate) min_len: usize,
}

impl<B: BufMut> Bufs<'_, B> {
    /// The buffers that a call is offered.
    fn offered(&mut self) -> &mut [B] {
        let count = RecvFlags::NONE.max_messages(self.bufs.len());
        &mut self.bufs[..count]
    }
}

fn too_short(len: usize, min_len: usize) -> io::Error {
    let reason = format!("a buffer has a chunk of {len} bytes, fewer than the {min_len} asked for");
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

impl<B: BufMut> Buffers for Bufs<'_, B> {
    fn shortest(&mut self) -> Option<usize> {
        self.offered().iter_mut().map(|buf| buf.chunk_mut().len()).min()
    }

    fn receive(
        &mut self,
        headers: &mut RecvStorage,
        call: &mut dyn FnMut(WiredRecvs<'_>) -> io::Result<Taken>,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<Taken> {
        let min_len = self.min_len;
        let bufs = self.offered();
        headers.reserve(bufs.len())?;
        let mut builder = headers.begin();
        for buf in &mut *bufs {
            let chunk = buf.chunk_mut();
            if chunk.len() < min_len {
                return Err(too_short(chunk.len(), min_len));
            }
            // SAFETY: only the kernel writes to it, which leaves no byte uninitialised that was not.
            builder.push_uninit(unsafe { chunk.as_uninit_slice_mut() });
        }
        let taken = call(builder.wired())?;
        for (i, buf) in bufs.iter_mut().take(taken.count).enumerate() {
            let (chunk, (start, len)) = (buf.chunk_mut(), headers.written(i));
            // A `BufMut` may give another chunk than before.
            let is_same = start == chunk.as_mut_ptr();
            let len = if is_same { len.min(chunk.len()) } else { 0 };
            // SAFETY: the kernel has written `len` bytes to the start of the chunk, which the call has borrowed until now.
            let data = unsafe { slice::from_raw_parts(chunk.as_mut_ptr(), len) };
            with_message(headers, i, data, each);
            // SAFETY: as above.
            unsafe { buf.advance_mut(len) };
        }
        Ok(taken)
    }

    fn receive_by(
        &mut self,
        recv: RecvSlices<'_>,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        const MAX: usize = 16;
        let min_len = self.min_len;
        let count = self.bufs.len().min(MAX);
        let bufs = &mut self.bufs[..count];
        let mut memory = Vec::with_capacity(count);
        for buf in &mut *bufs {
            let len = buf.chunk_mut().len();
            if len < min_len {
                return Err(too_short(len, min_len));
            }
            memory.push(vec![0; len]);
        }
        let mut slices: Vec<_> = memory.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        let mut received = 0;
        recv(&mut slices, &mut |_, message| {
            if let Some(buf) = bufs.get_mut(received) {
                let data = message.data();
                let len = data.len().min(buf.chunk_mut().len());
                each(received, message);
                buf.put_slice(&data[..len]);
                received += 1;
            }
        })?;
        Ok(received)
    }
}

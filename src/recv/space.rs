//! The memory that a message to be received borrows.

use std::io::IoSliceMut;
use std::slice;

use crate::ancillary::ControlSpace;
use crate::recv::scattered;
use crate::sys::{AddrSpace, OwnedSocket, RawAddr, RawAddrRef, UnixAddrBuf};

/// The borrowed memory. The common case, one buffer, has its own variant.
pub(super) enum RecvSpace<'a> {
    /// One buffer and nothing else.
    Plain(IoSliceMut<'a>),
    /// Any number of buffers, with or without memory for more than the payload.
    Full { buffers: RecvBuffers<'a>, extra: Extra<'a> },
}

/// Memory that a message brings for what comes with the payload.
#[derive(Default)]
pub(super) struct Extra<'a> {
    pub(super) control: Option<&'a mut ControlSpace>,
    pub(super) fds: Option<&'a mut Vec<OwnedSocket>>,
    pub(super) source: Option<&'a mut UnixAddrBuf>,
}

/// One buffer, or several that are filled in order.
pub(super) enum RecvBuffers<'a> {
    One(IoSliceMut<'a>),
    Many(&'a mut [IoSliceMut<'a>]),
}

impl<'a> RecvBuffers<'a> {
    #[inline]
    pub(super) fn as_mut(&mut self) -> &mut [IoSliceMut<'a>] {
        match self {
            Self::One(buffer) => slice::from_mut(buffer),
            Self::Many(buffers) => buffers,
        }
    }
}

impl<'a> RecvSpace<'a> {
    pub(super) fn one(buffer: &'a mut [u8]) -> Self {
        Self::Plain(IoSliceMut::new(buffer))
    }

    pub(super) fn many(buffers: &'a mut [IoSliceMut<'a>]) -> Self {
        Self::Full { buffers: RecvBuffers::Many(buffers), extra: Extra::default() }
    }

    #[inline]
    pub(super) fn with_extra(self, set: impl FnOnce(&mut Extra<'a>)) -> Self {
        let (buffers, mut extra) = match self {
            Self::Plain(buffer) => (RecvBuffers::One(buffer), Extra::default()),
            Self::Full { buffers, extra } => (buffers, extra),
        };
        set(&mut extra);
        Self::Full { buffers, extra }
    }

    #[inline]
    pub(super) fn buffers(&self) -> &[IoSliceMut<'a>] {
        match self {
            Self::Plain(buffer) | Self::Full { buffers: RecvBuffers::One(buffer), .. } => {
                slice::from_ref(buffer)
            }
            Self::Full { buffers: RecvBuffers::Many(buffers), .. } => buffers,
        }
    }

    #[inline]
    pub(super) fn buffers_mut(&mut self) -> &mut [IoSliceMut<'a>] {
        match self {
            Self::Plain(buffer) => slice::from_mut(buffer),
            Self::Full { buffers, .. } => buffers.as_mut(),
        }
    }

    /// Capacity of the buffers in bytes.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Plain(buffer) => buffer.len(),
            Self::Full { .. } => scattered::capacity(self.buffers()),
        }
    }

    /// The source: in the memory that the message brings, or in `own`.
    #[inline]
    pub(super) fn source<'s>(&'s self, own: &'s RawAddr) -> RawAddrRef<'s> {
        match self {
            Self::Full { extra: Extra { source: Some(source), .. }, .. } => source.lend(),
            _ => own.lend(),
        }
    }

    #[inline]
    pub(super) fn source_mut<'s>(&'s mut self, own: &'s mut RawAddr) -> AddrSpace<'s> {
        match self {
            Self::Full { extra: Extra { source: Some(source), .. }, .. } => source.space(),
            _ => own.space(),
        }
    }

    /// The buffers, to be changed, and the source.
    pub(super) fn parts_mut<'s>(
        &'s mut self,
        own: &'s RawAddr,
    ) -> (&'s mut [IoSliceMut<'a>], RawAddrRef<'s>) {
        match self {
            Self::Plain(buffer) => (slice::from_mut(buffer), own.lend()),
            Self::Full { buffers, extra } => {
                let source = extra.source.as_deref().map_or(own.lend(), UnixAddrBuf::lend);
                (buffers.as_mut(), source)
            }
        }
    }

    /// The memory for control messages, if the message brings any.
    #[inline]
    pub(super) fn control(&self) -> Option<&ControlSpace> {
        match self {
            Self::Full { extra: Extra { control: Some(control), .. }, .. } => Some(control),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn set_control_len(&mut self, len: usize) {
        if let Self::Full { extra: Extra { control: Some(control), .. }, .. } = self {
            control.set_len(len);
        }
    }

    /// The memory for descriptors, if the message brings any.
    #[inline]
    pub(super) fn fds_mut(&mut self) -> Option<&mut Vec<OwnedSocket>> {
        match self {
            Self::Full { extra: Extra { fds: Some(fds), .. }, .. } => Some(fds),
            _ => None,
        }
    }
}

//! The parts of a datagram to be sent, besides its destination: payload and options.

use std::io::IoSlice;
use std::ptr;

use crate::ancillary::{ControlBuf, Ecn, RecvMeta, SendMeta};

/// The payload: one buffer, or several that follow one another.
#[derive(Clone, Copy)]
pub(crate) enum SendBuffers<'a> {
    One(&'a [u8]),
    Many(&'a [IoSlice<'a>]),
}

impl SendBuffers<'_> {
    /// Bytes in all buffers together. Buffers may overlap, so the sum can exceed `usize`: it saturates,
    /// and no system sends so much.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(data) => data.len(),
            Self::Many(data) => data.iter().fold(0, |sum, part| part.len().saturating_add(sum)),
        }
    }
}

/// The options of a message: those behind a reference, and over them those in the message itself.
#[derive(Clone, Copy)]
pub(crate) struct MsgOptions<'a> {
    pub(super) lent: LentOptions<'a>,
    pub(super) inline: InlineOptions,
}

/// Options behind a reference.
#[derive(Clone, Copy)]
pub(crate) enum LentOptions<'a> {
    None,
    Meta(&'a SendMeta),
    /// Metadata of a received message that this one answers.
    Reply(&'a RecvMeta),
    /// Control messages, and options beside them.
    Control(&'a ControlBuf<'a>),
}

/// Options in the message itself, which an iterator can set for each message that it yields.
///
/// Not packed into one word: a `SendMsg` is then written through a copy that is read back in wider pieces than it
/// was written in, 8 ns a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InlineOptions {
    pub(super) ecn: Option<Ecn>,
    pub(super) segment_size: Option<u16>,
}

impl InlineOptions {
    pub(crate) const NONE: Self = Self { ecn: None, segment_size: None };

    /// The segment size.
    #[inline(always)]
    pub(super) const fn segment_size(&self) -> Option<u16> {
        self.segment_size
    }

    #[inline]
    pub(super) const fn is_none(&self) -> bool {
        self.ecn.is_none() && self.segment_size.is_none()
    }

    /// Whether these ECN bits are the only option, if there are any.
    #[inline(always)]
    pub(super) fn is_ecn(&self, ecn: Option<Ecn>) -> bool {
        self.segment_size.is_none() && self.ecn == ecn
    }
}

/// The options of a message, where they are: a copy would be written in smaller pieces than it is read in, and that
/// read waits for the writes.
#[derive(Clone, Copy)]
pub(crate) enum OptionsRef<'r, 'a> {
    /// Only options in the message itself.
    Inline(&'r InlineOptions),
    Any(&'r MsgOptions<'a>),
}

impl<'a> From<OptionsRef<'_, 'a>> for MsgOptions<'a> {
    #[inline]
    fn from(options: OptionsRef<'_, 'a>) -> Self {
        match options {
            OptionsRef::Inline(inline) => MsgOptions::from(*inline),
            OptionsRef::Any(options) => *options,
        }
    }
}

impl<'a> LentOptions<'a> {
    /// Calls `then` with the options. Most are not copied.
    #[inline(always)]
    pub(super) fn with_meta<R>(self, then: impl FnOnce(&SendMeta) -> R) -> R {
        match self {
            Self::None => then(const { &SendMeta::new() }),
            Self::Meta(meta) => then(meta),
            Self::Reply(received) => then(&received.reply()),
            Self::Control(control) => then(control.meta_ref()),
        }
    }

    /// Whether there are options but the segment size. Their control messages depend on the destination's family.
    pub(super) fn depend_on_family(self, ecn: Option<Ecn>) -> bool {
        ecn.is_some()
            || self.with_meta(|meta| SendMeta { segment_size: None, ..*meta } != SendMeta::new())
    }

    /// Whether both are the same memory, or none.
    #[inline]
    fn is(&self, other: &LentOptions<'_>) -> bool {
        match (*self, *other) {
            (Self::None, LentOptions::None) => true,
            (Self::Meta(one), LentOptions::Meta(other)) => ptr::eq(one, other),
            (Self::Reply(one), LentOptions::Reply(other)) => ptr::eq(one, other),
            (Self::Control(one), LentOptions::Control(other)) => {
                ptr::eq(ptr::from_ref(one).cast::<()>(), ptr::from_ref(other).cast())
            }
            _ => false,
        }
    }
}

impl From<InlineOptions> for MsgOptions<'_> {
    #[inline(always)]
    fn from(inline: InlineOptions) -> Self {
        Self { lent: LentOptions::None, inline }
    }
}

impl<'a> MsgOptions<'a> {
    pub(super) const NONE: Self = Self { lent: LentOptions::None, inline: InlineOptions::NONE };

    /// Whether there are neither options nor control messages.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        matches!(self.lent, LentOptions::None) && self.inline.is_none()
    }

    /// All options together.
    #[inline]
    pub(crate) fn meta(&self) -> SendMeta {
        let mut meta = self.lent.with_meta(|meta| *meta);
        if let Some(ecn) = self.inline.ecn {
            meta = meta.with_ecn(ecn);
        }
        meta.segment_size = self.inline.segment_size.or(meta.segment_size);
        meta
    }

    /// The segment size alone.
    #[inline]
    pub(crate) fn segment_size(&self) -> Option<u16> {
        self.inline.segment_size.or_else(|| match self.lent {
            LentOptions::None | LentOptions::Reply(_) => None,
            LentOptions::Meta(meta) => meta.segment_size,
            LentOptions::Control(control) => control.meta().segment_size,
        })
    }

    /// The same without the segment size in the message itself.
    #[inline]
    pub(crate) fn without_inline_segment_size(self) -> Self {
        Self { inline: InlineOptions { segment_size: None, ..self.inline }, ..self }
    }

    /// The number of the send timestamp alone.
    #[inline]
    pub(crate) fn timestamp_id(&self) -> Option<u32> {
        match self.lent {
            LentOptions::None | LentOptions::Reply(_) => None,
            LentOptions::Meta(meta) => meta.timestamp_id,
            LentOptions::Control(control) => control.meta().timestamp_id,
        }
    }

    /// The control messages.
    #[inline]
    pub(crate) fn control(&self) -> &'a [u8] {
        match self.lent {
            LentOptions::Control(control) => control.as_bytes(),
            _ => &[],
        }
    }

    /// Whether both refer to the same memory and have equal options in the message: quick to tell.
    #[inline]
    pub(crate) fn is(&self, other: &MsgOptions<'_>) -> bool {
        self.inline == other.inline && self.lent.is(&other.lent)
    }

    /// Whether both have equal options.
    #[inline]
    pub(crate) fn same(&self, other: &MsgOptions<'_>) -> bool {
        self.is(other) || self.equals(other)
    }

    /// Out of line, so that the comparison by identity alone is inlined.
    #[inline(never)]
    fn equals(&self, other: &MsgOptions<'_>) -> bool {
        self.meta() == other.meta() && self.control() == other.control()
    }
}

/// Payload and options. One enum in place of one for each, which would make a message 8 bytes longer.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    One { inline: InlineOptions, data: &'a [u8] },
    OneMeta { inline: InlineOptions, data: &'a [u8], meta: &'a SendMeta },
    OneReply { inline: InlineOptions, data: &'a [u8], received: &'a RecvMeta },
    OneControl { inline: InlineOptions, data: &'a [u8], control: &'a ControlBuf<'a> },
    Many { inline: InlineOptions, data: &'a [IoSlice<'a>] },
    ManyMeta { inline: InlineOptions, data: &'a [IoSlice<'a>], meta: &'a SendMeta },
    ManyReply { inline: InlineOptions, data: &'a [IoSlice<'a>], received: &'a RecvMeta },
    ManyControl { inline: InlineOptions, data: &'a [IoSlice<'a>], control: &'a ControlBuf<'a> },
}

impl<'a> Content<'a> {
    #[inline]
    pub(super) const fn new(buffers: SendBuffers<'a>, options: MsgOptions<'a>) -> Self {
        let MsgOptions { lent, inline } = options;
        match (buffers, lent) {
            (SendBuffers::One(data), LentOptions::None) => Self::One { inline, data },
            (SendBuffers::One(data), LentOptions::Meta(meta)) => {
                Self::OneMeta { inline, data, meta }
            }
            (SendBuffers::One(data), LentOptions::Reply(received)) => {
                Self::OneReply { inline, data, received }
            }
            (SendBuffers::One(data), LentOptions::Control(control)) => {
                Self::OneControl { inline, data, control }
            }
            (SendBuffers::Many(data), LentOptions::None) => Self::Many { inline, data },
            (SendBuffers::Many(data), LentOptions::Meta(meta)) => {
                Self::ManyMeta { inline, data, meta }
            }
            (SendBuffers::Many(data), LentOptions::Reply(received)) => {
                Self::ManyReply { inline, data, received }
            }
            (SendBuffers::Many(data), LentOptions::Control(control)) => {
                Self::ManyControl { inline, data, control }
            }
        }
    }

    #[inline]
    pub(super) const fn buffers(&self) -> SendBuffers<'a> {
        match *self {
            Self::One { data, .. }
            | Self::OneMeta { data, .. }
            | Self::OneReply { data, .. }
            | Self::OneControl { data, .. } => SendBuffers::One(data),
            Self::Many { data, .. }
            | Self::ManyMeta { data, .. }
            | Self::ManyReply { data, .. }
            | Self::ManyControl { data, .. } => SendBuffers::Many(data),
        }
    }

    #[inline]
    pub(super) const fn options(&self) -> MsgOptions<'a> {
        let (lent, inline) = match *self {
            Self::One { inline, .. } | Self::Many { inline, .. } => (LentOptions::None, inline),
            Self::OneMeta { inline, meta, .. } | Self::ManyMeta { inline, meta, .. } => {
                (LentOptions::Meta(meta), inline)
            }
            Self::OneReply { inline, received, .. } | Self::ManyReply { inline, received, .. } => {
                (LentOptions::Reply(received), inline)
            }
            Self::OneControl { inline, control, .. }
            | Self::ManyControl { inline, control, .. } => (LentOptions::Control(control), inline),
        };
        MsgOptions { lent, inline }
    }

    /// The payload and the options, if the payload is one buffer and there is no `ControlBuf`.
    #[inline(always)]
    pub(super) const fn single(&self) -> Option<(&'a [u8], MsgOptions<'a>)> {
        let (data, lent, inline) = match *self {
            Self::One { inline, data } => (data, LentOptions::None, inline),
            Self::OneMeta { inline, data, meta } => (data, LentOptions::Meta(meta), inline),
            Self::OneReply { inline, data, received } => {
                (data, LentOptions::Reply(received), inline)
            }
            _ => return None,
        };
        Some((data, MsgOptions { lent, inline }))
    }

    /// The payload and the options, if the payload is one buffer and no options are behind a reference. Those in the
    /// message by reference: by value they are read in wider pieces than they were written in, which takes 8 ns.
    #[inline(always)]
    pub(super) const fn unlent(&self) -> Option<(&'a [u8], &InlineOptions)> {
        match self {
            Self::One { inline, data } => Some((data, inline)),
            _ => None,
        }
    }
}

//! Datagrams in order, stored as runs: what the datagrams of a run have in common is stored once.

use std::net::SocketAddr;

use super::error::PushError;
use crate::ancillary::{ControlBuf, SendMeta};
use crate::send::content::{InlineOptions, LentOptions, MsgOptions, SendBuffers};
use crate::send::msg::SendMsg;
use crate::send::outgoing::{Messages, Outgoing};
use crate::sys::{self, DestRef, RawAddr, UnixAddr, UnixAddrBuf};

/// Bytes that each datagram counts beside its payload: those of a run, since each may be one.
pub(super) const ENTRY: usize = size_of::<Run>();

/// What a datagram takes in a queue.
pub(super) struct Size {
    /// Bytes of payload.
    len: u32,
    /// Bytes of a Unix destination.
    name_len: u8,
    /// Bytes counted against the bound.
    pub(super) counted: usize,
}

impl Size {
    /// # Errors
    ///
    /// `TooLong` for lengths that cannot be counted: no system sends so much. `NoAddress`.
    #[inline]
    pub(super) fn of(msg: &SendMsg<'_>) -> Result<Self, PushError> {
        let name = match msg.dest_ref() {
            DestRef::Unix(dest) => name_len(dest)?,
            _ => 0,
        };
        let options = match msg.options().lent {
            LentOptions::None => 0,
            LentOptions::Meta(_) | LentOptions::Reply(_) => size_of::<SendMeta>(),
            LentOptions::Control(_) => size_of::<ControlBuf<'_>>(),
        };
        let (len, rest) = (msg.len(), options + name + ENTRY);
        match (len.try_into(), name.try_into(), len.checked_add(rest)) {
            (Ok(len), Ok(name_len), Some(counted)) => Ok(Self { len, name_len, counted }),
            _ => Err(PushError::TooLong),
        }
    }
}

#[cold]
fn name_len(dest: UnixAddr<'_>) -> Result<usize, PushError> {
    Ok(UnixAddrBuf::encode(dest).ok_or(PushError::NoAddress)?.as_bytes().len())
}

/// Datagrams in order, consumed from their start.
///
/// Invariants:
///
/// 1. `payload[run.start..][..run.len]` is the payload of each run's datagrams, one after another, and a Unix
///    destination follows it, if the run has one. `run.option - 1` is the place of its options in `metas` or
///    `controls`, as `run.stored` says.
/// 2. A run has `count` datagrams of `segment` bytes each, but the last, which has `len - (count - 1) * segment`,
///    from 0 to `segment`.
/// 3. In the back stage nothing has left: `first` and `gone` are 0, and `order` is empty.
pub(super) struct Stage {
    runs: Vec<Run>,
    payload: Vec<u8>,
    metas: Vec<SendMeta>,
    controls: Vec<ControlBuf<'static>>,
    /// The order of sending, if it is not that of the runs: the key of each run's destination, and the run's place.
    order: Vec<(u64, u32)>,
    /// The first run, in the order of sending, that is still here, and how many of its datagrams have left.
    first: usize,
    gone: usize,
    /// Datagrams that are still here.
    len: usize,
}

/// Datagrams that were pushed one after another: to one destination, with the same options, each as long as the
/// first but the last, which may be shorter. So a push compares and counts, and most of a GSO batch is found.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// The Internet destination.
    dest: RawAddr,
    inline: InlineOptions,
    /// Length of each datagram but the last.
    segment: u32,
    count: u32,
    /// Where its options are, plus 1.
    option: u32,
    stored: Stored,
    /// Bytes of the Unix destination.
    name_len: u8,
    /// Whether a datagram may follow.
    open: bool,
    /// Whether it is the run before it to another destination, and stores nothing.
    repeats: bool,
    start: usize,
    len: usize,
}

/// The options that a stage has for a run, beside those in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    None,
    Meta,
    Control,
}

/// The options of a message to be stored, beside those in the message itself.
enum Options<'m> {
    None,
    Meta(SendMeta),
    Control(&'m ControlBuf<'m>),
}

impl<'m> Options<'m> {
    fn of(lent: LentOptions<'m>) -> Self {
        match lent {
            LentOptions::None => Self::None,
            LentOptions::Meta(meta) => Self::Meta(*meta),
            LentOptions::Reply(received) => Self::Meta(received.reply()),
            LentOptions::Control(control) => Self::Control(control),
        }
    }
}

/// How much a stage has, for [`Stage::truncate`].
pub(super) struct Lengths {
    runs: usize,
    last: Option<Run>,
    payload: usize,
    metas: usize,
    controls: usize,
    len: usize,
}

impl Run {
    /// Whether a datagram of this length, with options that the stage stores like this, can follow.
    #[inline(always)]
    fn takes(
        &self,
        dest: Option<&SocketAddr>,
        len: u32,
        inline: InlineOptions,
        stored: Stored,
    ) -> bool {
        self.open
            && len <= self.segment
            && len > 0
            && self.inline == inline
            && self.stored == stored
            && self.dest.is(dest)
            && self.count < u32::MAX
    }

    #[inline(always)]
    fn add(&mut self, len: u32) {
        self.count += 1;
        self.len += len as usize;
        self.open = len == self.segment;
    }

    /// Bytes of the first `count` datagrams.
    #[inline]
    fn offset(&self, count: usize) -> usize {
        count.saturating_mul(self.segment as usize).min(self.len)
    }

    /// What datagrams count against the bound, beside [`ENTRY`] each.
    #[inline]
    fn counted(&self, from: usize, to: usize) -> usize {
        if self.repeats {
            return 0;
        }
        let options = match self.stored {
            Stored::None => 0,
            Stored::Meta => size_of::<SendMeta>(),
            Stored::Control => size_of::<ControlBuf<'_>>(),
        };
        let each = options + usize::from(self.name_len);
        self.offset(to) - self.offset(from) + (to - from) * each
    }
}

impl Stage {
    pub(super) const fn new() -> Self {
        Self {
            runs: Vec::new(),
            payload: Vec::new(),
            metas: Vec::new(),
            controls: Vec::new(),
            order: Vec::new(),
            first: 0,
            gone: 0,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Stores a message of one buffer, to an Internet address, with no options but those in the message.
    #[inline]
    pub(super) fn push_unlent(
        &mut self,
        dest: Option<&SocketAddr>,
        data: &[u8],
        len: u32,
        inline: InlineOptions,
    ) {
        match self.runs.last_mut() {
            Some(run) if run.takes(dest, len, inline, Stored::None) => {
                self.payload.extend_from_slice(data);
                run.add(len);
            }
            _ => {
                // Grow first: if growing panics, the stage is unchanged.
                self.runs.reserve(1);
                let start = self.payload.len();
                self.payload.extend_from_slice(data);
                self.push_run(dest, Run { start, inline, ..Run::of(len) });
            }
        }
        self.len += 1;
    }

    #[inline]
    fn push_run(&mut self, dest: Option<&SocketAddr>, run: Run) {
        self.runs.push(run);
        // Written in place: to copy what was just written in smaller pieces takes 7 ns.
        if let Some(run) = self.runs.last_mut() {
            run.dest.space().set(dest);
        }
    }

    /// Stores a message without descriptors.
    pub(super) fn push(&mut self, msg: &SendMsg<'_>, size: &Size) {
        // Grow first: if growing panics, the stage is unchanged.
        self.payload.reserve(size.len as usize + usize::from(size.name_len));
        self.runs.reserve(1);
        let MsgOptions { lent, inline } = msg.options();
        let (dest, len) = (msg.dest(), size.len);
        let start = self.payload.len();
        let options = Options::of(lent);
        let joins = size.name_len == 0 && self.joins(dest.as_ref(), len, inline, &options);
        let (stored, option) = if joins { (Stored::None, 0) } else { self.store_options(&options) };
        match msg.buffers() {
            SendBuffers::One(data) => self.payload.extend_from_slice(data),
            SendBuffers::Many(data) => {
                data.iter().for_each(|part| self.payload.extend_from_slice(part));
            }
        }
        self.len += 1;
        match self.runs.last_mut() {
            Some(run) if joins => run.add(len),
            _ => {
                if let DestRef::Unix(dest) = msg.dest_ref() {
                    self.store_name(dest);
                }
                let open = stored != Stored::Control && size.name_len == 0;
                let name_len = size.name_len;
                let run = Run { inline, stored, option, name_len, start, open, ..Run::of(len) };
                self.push_run(dest.as_ref(), run);
            }
        }
    }

    /// Whether a message with these options can follow in the last run.
    fn joins(
        &self,
        dest: Option<&SocketAddr>,
        len: u32,
        inline: InlineOptions,
        options: &Options<'_>,
    ) -> bool {
        let Some(run) = self.runs.last() else { return false };
        match options {
            Options::None => run.takes(dest, len, inline, Stored::None),
            Options::Meta(meta) => {
                run.takes(dest, len, inline, Stored::Meta) && self.metas.last() == Some(meta)
            }
            Options::Control(_) => false,
        }
    }

    /// Stores a Unix destination, which is beside the payload.
    #[cold]
    fn store_name(&mut self, dest: UnixAddr<'_>) {
        if let Some(name) = UnixAddrBuf::encode(dest) {
            self.payload.extend_from_slice(name.as_bytes());
        }
    }

    /// Returns where the options are, plus 1. These places fit: each takes a run's memory as well, and memory does
    /// not hold 2^32 of those.
    fn store_options(&mut self, options: &Options<'_>) -> (Stored, u32) {
        match options {
            Options::None => (Stored::None, 0),
            Options::Meta(meta) => {
                self.metas.push(*meta);
                (Stored::Meta, self.metas.len() as u32)
            }
            Options::Control(control) => {
                self.controls.push(control.without_fds());
                (Stored::Control, self.controls.len() as u32)
            }
        }
    }

    /// Repeats the last datagram with another destination.
    pub(super) fn repeat(&mut self, dest: SocketAddr) {
        let last = *self.runs.last().expect("a datagram was pushed");
        let before = last.offset(last.count as usize - 1);
        let len = last.len - before;
        self.runs.push(Run {
            dest: RawAddr::new(Some(&dest)),
            segment: len as u32, // at most that of a segment
            count: 1,
            open: false,
            repeats: true,
            start: last.start + before,
            len,
            ..last
        });
        self.len += 1;
    }

    /// How much is in it.
    pub(super) fn lengths(&self) -> Lengths {
        Lengths {
            runs: self.runs.len(),
            last: self.runs.last().copied(),
            payload: self.payload.len(),
            metas: self.metas.len(),
            controls: self.controls.len(),
            len: self.len,
        }
    }

    /// Drops what was pushed after `lengths`.
    pub(super) fn truncate(&mut self, lengths: &Lengths) {
        self.runs.truncate(lengths.runs);
        if let (Some(run), Some(last)) = (self.runs.last_mut(), lengths.last) {
            *run = last;
        }
        self.payload.truncate(lengths.payload);
        self.metas.truncate(lengths.metas);
        self.controls.truncate(lengths.controls);
        self.len = lengths.len;
    }

    #[inline]
    pub(super) fn iter(&self) -> StageIter<'_> {
        StageIter {
            stage: self,
            next: self.first,
            gone: self.gone,
            left: 0,
            rest: &[],
            segment: 0,
            dest: DestRef::Addr(None),
            options: MsgOptions::NONE,
        }
    }

    /// Puts together what goes to one destination, unless it is already. Without memory for it, nothing changes.
    pub(super) fn group(&mut self) {
        let count = self.runs.len();
        if !self.order.is_empty() || self.order.try_reserve(count).is_err() {
            return;
        }
        self.forget_gone();
        let runs = &self.runs;
        let keys = runs.iter().map(|run| run.dest.lend().key());
        // The places fit, as the places of options do.
        self.order.extend(keys.zip(0u32..));
        // The place decides last: the order within each destination stays.
        self.order[self.first..].sort_unstable_by(|(one, i), (other, j)| {
            let dest = |i: u32| runs[i as usize].dest.lend();
            one.cmp(other).then_with(|| dest(*i).compare(dest(*j))).then(i.cmp(j))
        });
    }

    /// Takes the datagrams that have left out of the first run, so that it can stand anywhere.
    fn forget_gone(&mut self) {
        let gone = self.gone;
        if let (Some(run), 1..) = (self.runs.get_mut(self.first), gone) {
            let bytes = run.offset(gone);
            (run.start, run.len) = (run.start + bytes, run.len - bytes);
            // Fewer than there were.
            run.count -= gone as u32;
            self.gone = 0;
        }
    }

    /// The run that is sent as number `i`.
    #[inline]
    fn run(&self, i: usize) -> Option<&Run> {
        let place = if self.order.is_empty() { i } else { self.order.get(i)?.1 as usize };
        self.runs.get(place)
    }

    /// Drops the first `n` datagrams and returns their counted size.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) -> usize {
        let (mut counted, mut left) = (n * ENTRY, n);
        while let (Some(run), 1..) = (self.run(self.first), left) {
            let count = run.count as usize;
            let end = count.min(self.gone + left);
            counted += run.counted(self.gone, end);
            left -= end - self.gone;
            (self.first, self.gone) =
                if end == count { (self.first + 1, 0) } else { (self.first, end) };
        }
        self.len -= n - left;
        counted
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.payload.clear();
        self.metas.clear();
        self.controls.clear();
        self.order.clear();
        (self.first, self.gone, self.len) = (0, 0, 0);
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.runs.shrink_to_fit();
        self.payload.shrink_to_fit();
        self.metas.shrink_to_fit();
        self.controls.shrink_to_fit();
        self.order.shrink_to_fit();
    }
}

impl Run {
    /// One datagram of this length.
    #[inline(always)]
    fn of(len: u32) -> Self {
        Self {
            dest: RawAddr::NONE,
            inline: InlineOptions::NONE,
            segment: len,
            count: 1,
            option: 0,
            stored: Stored::None,
            name_len: 0,
            open: true,
            repeats: false,
            start: 0,
            len: len as usize,
        }
    }
}

/// Iterates over a stage in the order of sending. A type of its own, so that `next` is inlined: what it returns is
/// read at once.
pub(super) struct StageIter<'a> {
    stage: &'a Stage,
    /// The run after the present one, and how many of its datagrams to leave out.
    next: usize,
    gone: usize,
    /// Of the present run: the datagrams left, their bytes, and what each has.
    left: usize,
    rest: &'a [u8],
    segment: usize,
    dest: DestRef<'a, 'a>,
    options: MsgOptions<'a>,
}

impl<'a> StageIter<'a> {
    /// Goes on to the next run.
    #[inline]
    fn begin_run(&mut self) -> Option<()> {
        let Stage { payload, .. } = self.stage;
        let run = self.stage.run(self.next)?;
        let lent = match run.stored {
            Stored::None => LentOptions::None,
            Stored::Meta => LentOptions::Meta(&self.stage.metas[run.option as usize - 1]),
            Stored::Control => LentOptions::Control(&self.stage.controls[run.option as usize - 1]),
        };
        let data = &payload[run.start..][..run.len];
        self.dest = match run.name_len {
            0 => DestRef::Raw(run.dest.lend()),
            len => stored_name(&payload[run.start + run.len..][..len.into()]),
        };
        self.options = MsgOptions { lent, inline: run.inline };
        (self.left, self.rest) = (run.count as usize - self.gone, &data[run.offset(self.gone)..]);
        (self.segment, self.gone) = (run.segment as usize, 0);
        self.next += 1;
        Some(())
    }
}

#[cold]
fn stored_name<'s>(name: &'s [u8]) -> DestRef<'s, 's> {
    sys::unix_addr(name).map_or(DestRef::Addr(None), DestRef::Unix)
}

impl<'a> Iterator for StageIter<'a> {
    type Item = Queued<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Queued<'a>> {
        if self.left == 0 {
            self.begin_run()?;
        }
        self.left -= 1;
        let (data, rest) = self.rest.split_at(self.segment.min(self.rest.len()));
        self.rest = rest;
        Some(Queued { dest: self.dest, data, options: self.options })
    }
}

impl<'a> Messages<'a> for StageIter<'a> {
    #[inline]
    fn take_alike(&mut self, most: usize) -> Option<&'a [u8]> {
        // The last one may be shorter; an empty one is alone.
        let whole = self.rest.len().checked_div(self.segment)?;
        let count = whole.min(self.left).min(most);
        let (data, rest) = self.rest.split_at(count * self.segment);
        (self.left, self.rest) = (self.left - count, rest);
        (count > 0).then_some(data)
    }
}

/// A datagram in a stage, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Queued<'a> {
    dest: DestRef<'a, 'a>,
    data: &'a [u8],
    options: MsgOptions<'a>,
}

impl<'a> Outgoing<'a> for Queued<'a> {
    #[inline]
    fn dest(&self) -> DestRef<'_, 'a> {
        self.dest
    }

    #[inline]
    fn buffers(&self) -> SendBuffers<'a> {
        SendBuffers::One(self.data)
    }

    #[inline]
    fn options(&self) -> MsgOptions<'a> {
        self.options
    }

    #[inline]
    fn with_only(&self, options: InlineOptions) -> Option<&'a [u8]> {
        (self.options.unlent() == Some(options)).then_some(self.data)
    }

    #[inline(always)]
    fn to_msg(&self) -> SendMsg<'a> {
        SendMsg::from_parts(self.dest, self.data, self.options)
    }
}

//! A received message, in one buffer or several, and the datagrams in it.

use std::iter::FusedIterator;
use std::net::SocketAddr;

use crate::ancillary::RecvMeta;
use crate::recv::scattered::{Parts, Slices};
use crate::send::msg::SendMsg;
use crate::sys::{ControlMessages, RawAddrRef, RecvResult, Row, UnixAddr};

/// What a receive call reports about one message, besides its payload and its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Length that the system reported: more than the buffers' capacity if it reports the full length
    /// of a truncated message.
    pub(crate) reported: usize,
    /// Length of a coalesced message's segments; `None` for a single datagram.
    pub(crate) segment_size: Option<u16>,
    pub(crate) truncation: Truncation,
    /// Whether control messages came with it.
    pub(crate) has_meta: bool,
}

/// A message's metadata; borrowed, since it is large and often empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta<'a> {
    decoded: &'a RecvMeta,
    /// The control messages, if they are in memory.
    raw: &'a [u8],
}

static NO_META: RecvMeta = RecvMeta::NONE;

impl<'a> Meta<'a> {
    #[inline(always)]
    pub(crate) fn new(decoded: Option<&'a RecvMeta>, raw: &'a [u8]) -> Self {
        Self { decoded: decoded.unwrap_or(&NO_META), raw }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> RecvMeta {
        *self.decoded
    }
}

/// What a message lost because its buffers were too small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truncation {
    /// Payload (`MSG_TRUNC`).
    pub(crate) data: bool,
    /// Control messages (`MSG_CTRUNC`).
    pub(crate) control: bool,
    /// The segment size: the message may be coalesced, and its datagram boundaries are unknown.
    pub(crate) segment_size: bool,
}

impl Truncation {
    pub(crate) const NONE: Self = Self { data: false, control: false, segment_size: false };
}

impl Received {
    pub(crate) const NONE: Self =
        Self { reported: 0, segment_size: None, truncation: Truncation::NONE, has_meta: false };

    /// What the system reported, with the metadata decoded from the control data, if there is any;
    /// `from_inet` returns whether the source is an Internet address.
    #[inline]
    pub(crate) fn new(
        result: &RecvResult,
        meta: Option<&RecvMeta>,
        from_inet: impl FnOnce() -> bool,
    ) -> Self {
        let segment_size = meta.and_then(|meta| meta.segment_size).filter(|size| *size > 0);
        let control = result.control_truncated;
        let truncation = Truncation {
            data: result.truncated,
            control,
            // Only Internet sockets coalesce, and their messages have a source.
            segment_size: control && segment_size.is_none() && from_inet(),
        };
        Self { reported: result.len, segment_size, truncation, has_meta: meta.is_some() }
    }

    /// The message's full length, of which `len` bytes are in the buffers.
    pub(crate) fn full_len(&self, len: usize) -> Option<usize> {
        (!self.truncation.data || self.reported > len).then_some(self.reported)
    }

    /// What the message's last datagram lacks, at least, if `len` bytes are in the buffers.
    #[inline]
    fn missing(&self, len: usize) -> Missing {
        match self.full_len(len) {
            _ if !self.truncated() => Missing::NOTHING,
            Some(full_len) if !self.truncation.segment_size => Missing(full_len - len),
            _ => Missing::UNKNOWN,
        }
    }

    #[inline]
    pub(crate) fn truncated(&self) -> bool {
        self.truncation.data || self.truncation.segment_size
    }

    #[inline]
    pub(crate) fn control_truncated(&self) -> bool {
        self.truncation.control
    }
}

/// How many bytes a message or a datagram lacks at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing(usize);

impl Missing {
    const NOTHING: Self = Self(0);
    /// More than none, and the system did not report how many.
    const UNKNOWN: Self = Self(usize::MAX);

    #[inline(always)]
    fn is_truncated(self) -> bool {
        self != Self::NOTHING
    }

    /// The length before truncation, if `len` bytes are left.
    #[inline]
    fn full_len(self, len: usize) -> Option<usize> {
        (self != Self::UNKNOWN).then(|| len + self.0)
    }

    /// What a segment of `len` bytes lacks that ends the message: no more than makes it whole.
    #[inline(always)]
    fn of_last(self, len: usize, segment: usize) -> Self {
        if self == Self::UNKNOWN { self } else { Self(self.0.min(segment - len)) }
    }
}

/// A datagram with `data` to `source`, if `source` can be answered.
pub(crate) fn reply<'d>(
    source: RawAddrRef<'d>,
    meta: Meta<'d>,
    data: &'d [u8],
) -> Option<SendMsg<'d>> {
    // Source port 0 means that no reply is expected (RFC 768). 0.0.0.0 is never a destination (RFC
    // 1122, section 3.2.1.3).
    let answerable =
        |source: &SocketAddr| source.port() != 0 && !source.ip().to_canonical().is_unspecified();
    let msg = match source.get() {
        Some(source) => Some(source).filter(answerable).map(|source| SendMsg::to(source, data)),
        None => match source.unix() {
            Some(UnixAddr::Unnamed) | None => None,
            Some(source) => Some(SendMsg::to_unix(source, data)),
        },
    }?;
    let RecvMeta { local, destination, .. } = meta.decoded;
    let has_dest = local.is_some() || destination.is_some();
    Some(if has_dest { msg.with_reply(meta.decoded) } else { msg })
}

/// A received message: a single datagram or a coalesced message, with its metadata.
///
/// [`RecvBatch::messages`](crate::RecvBatch::messages) yields them, and
/// [`recv_slices`](crate::BatchSocketExt::recv_slices) gives one for each buffer that it fills.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for message in batch.messages() {
///     println!("{} datagrams from {:?}", message.datagrams().count(), message.addr());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Message<'a> {
    parts: Parts<'a>,
    source: RawAddrRef<'a>,
    received: Received,
    meta: Meta<'a>,
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn new(
        parts: Parts<'a>,
        source: RawAddrRef<'a>,
        received: Received,
        meta: Meta<'a>,
    ) -> Self {
        Self { parts, source, received, meta }
    }

    /// Calls `then` with the message that a receive left in `buffer`.
    #[inline]
    pub(crate) fn with_row<R>(
        buffer: &'a [u8],
        row: Row<'a>,
        then: impl FnOnce(Message<'_>) -> R,
    ) -> R {
        let result = row.result();
        let decoded = (result.control_len > 0).then(|| RecvMeta::decode(row.control()));
        let meta = decoded.as_ref();
        let received = Received::new(&result, meta, || row.source().get().is_some());
        let data = Parts::one(&buffer[..buffer.len().min(result.len)]);
        then(Message::new(data, row.source(), received, Meta::new(meta, row.control())))
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether it has no bytes; an empty datagram is delivered like any other.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    /// The bytes received.
    #[must_use]
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.parts.head()
    }

    /// The message's length in bytes before truncation; `None` if it was truncated and the system did
    /// not report it (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.received.full_len(self.parts.len())
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source.get()
    }

    /// The source address on a Unix socket (see [`Datagram::unix_addr`]).
    #[must_use]
    pub fn unix_addr(&self) -> Option<UnixAddr<'a>> {
        self.source.unix()
    }

    /// The message's metadata.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        self.meta.get()
    }

    /// A datagram with `data` to this message's source. With
    /// [`Ancillary::DEST`](crate::Ancillary::DEST) enabled it leaves from the address that the
    /// message was sent to (see [`RecvMeta::reply`]), otherwise from the address that the system picks.
    ///
    /// `None` if nobody can be answered: no address, an unspecified Internet address, an unnamed Unix
    /// socket, or source port 0, which means that the sender expects no reply (RFC 768).
    #[must_use]
    pub fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>>
    where
        'a: 'd,
    {
        reply(self.source, self.meta, data)
    }

    /// Whether bytes or datagram boundaries are missing: the message was longer than its slot, or it
    /// came from an Internet address and truncation of its control data lost the segment size.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.received.truncated()
    }

    /// Whether control messages are missing.
    #[must_use]
    pub fn control_truncated(&self) -> bool {
        self.received.control_truncated()
    }

    pub(crate) fn received(&self) -> Received {
        self.received
    }

    /// All control messages. The numbers of received descriptors read as -1 (see
    /// [`RecvBatch::accept_fds`](crate::RecvBatch::accept_fds)).
    #[must_use]
    pub fn control_messages(&self) -> ControlMessages<'a> {
        ControlMessages::new(self.meta.raw)
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see [`Datagrams`]).
    #[must_use]
    #[inline]
    pub fn datagrams(&self) -> Datagrams<'a> {
        Datagrams::new(self.parts, self.source, &self.received, self.meta)
    }
}

/// One received datagram: its payload, source and metadata.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for datagram in batch.iter() {
///     println!("{:?} from {:?}", datagram.data(), datagram.addr());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Datagram<'a> {
    parts: Parts<'a>,
    source: RawAddrRef<'a>,
    meta: Meta<'a>,
    missing: Missing,
}

impl<'a> Datagram<'a> {
    /// A single datagram that is not truncated.
    #[inline(always)]
    pub(crate) fn whole(data: &'a [u8], source: RawAddrRef<'a>, meta: Meta<'a>) -> Self {
        Self::new(data, source, meta, Missing::NOTHING)
    }

    #[inline(always)]
    pub(crate) fn new(
        data: &'a [u8],
        source: RawAddrRef<'a>,
        meta: Meta<'a>,
        missing: Missing,
    ) -> Self {
        Self { parts: Parts::one(data), source, meta, missing }
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether it has no bytes; an empty datagram is delivered like any other.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    /// The bytes in the first buffer: the whole payload, unless the message was received by
    /// [`RecvMsg::scatter`](crate::RecvMsg::scatter).
    #[must_use]
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.parts.head()
    }

    /// The bytes, buffer by buffer.
    #[must_use]
    pub fn slices(&self) -> Slices<'a> {
        self.parts.slices()
    }

    /// The source address. `None` if the system reported no Internet address, as on a Unix socket.
    #[must_use]
    #[inline]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.source.get()
    }

    /// The source address on a Unix socket. `None` if it is an Internet address.
    ///
    /// A sender without a name is [`UnixAddr::Unnamed`], as is a source that the system did not report. A
    /// datagram received into a [`RecvMsg`](crate::RecvMsg) has a Unix address only if that
    /// [has memory for it](crate::RecvMsg::with_unix_addr).
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::{BatchSocket, RecvBatch, UnixAddr};
    /// use std::os::unix::net::UnixDatagram;
    /// # let dir = std::env::temp_dir().join(format!("mmsg-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// # let (server_path, client_path) = (dir.join("server"), dir.join("client"));
    /// let server = UnixDatagram::bind(&server_path)?;
    /// let client = UnixDatagram::bind(&client_path)?;
    /// client.send_to(b"hello", &server_path)?;
    ///
    /// let mut batch = RecvBatch::new(8, 1500);
    /// server.recv_into(&mut batch)?;
    /// let datagram = batch.iter().next().expect("one was received");
    /// assert_eq!(datagram.unix_addr(), Some(UnixAddr::Path(&client_path)));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[doc(alias = "sockaddr_un")]
    pub fn unix_addr(&self) -> Option<UnixAddr<'a>> {
        self.source.unix()
    }

    /// The datagram's length in bytes before truncation; `None` if it was truncated and the system did
    /// not report it (see [`RecvFlags::FULL_LEN`](crate::RecvFlags::FULL_LEN)).
    #[must_use]
    pub fn full_len(&self) -> Option<usize> {
        self.missing.full_len(self.len())
    }

    /// The datagram's metadata; the segments of a coalesced message share it.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> RecvMeta {
        self.meta.get()
    }

    /// A datagram with `data` to this datagram's source. With
    /// [`Ancillary::DEST`](crate::Ancillary::DEST) enabled it leaves from the address that the
    /// datagram was sent to (see [`RecvMeta::reply`]), otherwise from the address that the system picks.
    ///
    /// `None` if nobody can be answered: no address, an unspecified Internet address, an unnamed Unix
    /// socket, or source port 0, which means that the sender expects no reply (RFC 768).
    ///
    /// To answer later, when the batch is used again, keep [`addr`](Self::addr) and [`RecvMeta::reply`].
    ///
    /// It borrows this datagram's metadata. [`SendMsg::with_ecn`] adds to its options, and
    /// [`SendMsg::with_meta`] replaces them: begin with `datagram.meta().reply()` to keep the source.
    ///
    /// ```
    /// use mmsg::{Ancillary, BatchSocket, BatchSocketExt, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # client.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// let taken = Ancillary::DEST.enable(&socket)?;
    /// socket.recv_into(&mut batch)?;
    /// let replies = batch.iter().filter_map(|datagram| datagram.reply(b"thanks"));
    /// socket.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    /// # assert_eq!(client.recv(&mut [0; 8])?, 6);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn reply<'d>(&self, data: &'d [u8]) -> Option<SendMsg<'d>>
    where
        'a: 'd,
    {
        reply(self.source, self.meta, data)
    }

    /// Whether its end is missing.
    #[must_use]
    #[inline]
    pub fn truncated(&self) -> bool {
        self.missing.is_truncated()
    }
}

/// Iterates over the datagrams of one message: a single one, or each segment of a coalesced message.
///
/// A truncated message yields its whole datagrams and then the rest of the next one, marked
/// [`truncated`](Datagram::truncated) even if that rest is empty. A message whose segment size was
/// lost yields one empty truncated datagram, since its datagram boundaries are unknown; the message
/// itself has the bytes.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// let message = batch.message(0).expect("one came");
/// assert_eq!(message.datagrams().map(|d| d.len()).sum::<usize>(), message.len());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    /// The bytes not yielded yet.
    rest: Parts<'a>,
    source: RawAddrRef<'a>,
    meta: Meta<'a>,
    split: Split,
}

/// Where a message is split into its datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    /// Whether another datagram follows; an empty message yields one.
    more: bool,
    /// Length of each segment but the last.
    segment: usize,
    /// What the end of the message lacks: its last datagram is incomplete or empty.
    missing: Missing,
}

impl Split {
    /// Also returns the bytes of the message that are split: none if the datagram boundaries are unknown.
    #[inline]
    pub(crate) fn new(received: &Received, len: usize) -> (Self, usize) {
        let segment = received.segment_size.map_or(usize::MAX, usize::from);
        let split = Self { more: true, segment, missing: received.missing(len) };
        (split, if received.truncation.segment_size { 0 } else { len })
    }

    /// The length of the next datagram, if `left` bytes are left, and what it lacks.
    #[inline(always)]
    pub(crate) fn next(&mut self, left: usize) -> Option<(usize, Missing)> {
        if !self.more {
            return None;
        }
        let len = self.segment.min(left);
        // In a truncated message another datagram follows a whole segment even if no bytes are left.
        let is_truncated = self.missing.is_truncated();
        self.more = left > len || (is_truncated && len == self.segment);
        let ends = is_truncated && !self.more;
        let missing = if ends { self.missing.of_last(len, self.segment) } else { Missing::NOTHING };
        Some((len, missing))
    }

    /// Datagrams to come, if `left` bytes are left.
    #[inline]
    pub(crate) fn count(&self, left: usize) -> usize {
        match (self.more, self.missing.is_truncated()) {
            (false, _) => 0,
            (true, false) => left.div_ceil(self.segment).max(1),
            (true, true) => left / self.segment + 1,
        }
    }
}

impl<'a> Datagrams<'a> {
    #[inline]
    pub(crate) fn new(
        parts: Parts<'a>,
        source: RawAddrRef<'a>,
        received: &Received,
        meta: Meta<'a>,
    ) -> Self {
        let (split, len) = Split::new(received, parts.len());
        let rest = if len == 0 { Parts::default() } else { parts };
        Self { rest, source, meta, split }
    }
}

/// The segments of a coalesced message after the first, in one buffer.
///
/// [`Datagrams`], whose bytes may lie in several buffers, would add 18 instructions a datagram to the
/// loop over a batch, for single datagrams as well.
#[derive(Clone, Debug)]
pub(crate) struct Segments<'a> {
    rest: &'a [u8],
    /// This and the following fields are those of [`Datagrams`].
    source: RawAddrRef<'a>,
    meta: Meta<'a>,
    split: Split,
}

impl<'a> Segments<'a> {
    /// The rest of datagrams in one buffer.
    pub(crate) fn rest_of(datagrams: &Datagrams<'a>) -> Self {
        let &Datagrams { rest, source, meta, split } = datagrams;
        Self { rest: rest.head(), source, meta, split }
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Datagram<'a>> {
        let (len, missing) = self.split.next(self.rest.len())?;
        let (data, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(Datagram::new(data, self.source, self.meta, missing))
    }

    /// Bytes left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    #[inline]
    fn next(&mut self) -> Option<Datagram<'a>> {
        // The common case: more bytes follow in the same buffer, so that this datagram is whole. A message of 64
        // datagrams is read in 0.7 of the time.
        if let Some(parts) = self.rest.split_within(self.split.segment) {
            let missing = Missing::NOTHING;
            return Some(Datagram { parts, source: self.source, meta: self.meta, missing });
        }
        let (len, missing) = self.split.next(self.rest.len())?;
        let parts = self.rest.split_to(len);
        Some(Datagram { parts, source: self.source, meta: self.meta, missing })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.split.count(self.rest.len());
        (left, Some(left))
    }
}

impl ExactSizeIterator for Datagrams<'_> {}
impl FusedIterator for Datagrams<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::RawAddr;
    use proptest::prelude::*;

    static NOWHERE: RawAddr = RawAddr::NONE;

    fn message(bytes: &[u8], received: Received) -> Message<'_> {
        Message::new(Parts::one(bytes), NOWHERE.lend(), received, Meta::new(None, &[]))
    }

    fn received(len: usize, segment_size: Option<u16>, truncation: Truncation) -> Received {
        Received { reported: len, segment_size, truncation, has_meta: false }
    }

    fn truncation(data: bool) -> Truncation {
        Truncation { data, ..Truncation::NONE }
    }

    type Plain = Vec<(Vec<u8>, bool)>;

    fn plain<'a>(datagrams: impl Iterator<Item = Datagram<'a>>) -> Plain {
        datagrams.map(|d| (d.slices().collect::<Vec<_>>().concat(), d.truncated())).collect()
    }

    proptest! {
        #[test]
        fn d19_a_coalesced_message_is_split_as_chunks_are(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            segment in 1u16..50,
            buffer in 1usize..70,
            truncated in any::<bool>(),
        ) {
            let received = received(bytes.len(), Some(segment), truncation(truncated));
            let mut naive: Plain =
                bytes.chunks(segment.into()).map(|c| (c.to_vec(), false)).collect();
            // The datagram that the end of the buffer truncates, possibly before its first byte.
            if naive.last().is_none_or(|(d, _)| truncated && d.len() == usize::from(segment)) {
                naive.push((Vec::new(), false));
            }
            naive.last_mut().expect("never empty").1 = truncated;

            let whole = message(&bytes, received);
            prop_assert_eq!(whole.datagrams().len(), naive.len());
            prop_assert_eq!(plain(whole.datagrams()), naive.clone());
            // A batch yields the first datagram and then the rest of the same buffer.
            let mut datagrams = whole.datagrams();
            let first = datagrams.next();
            let mut rest = Segments::rest_of(&datagrams);
            let all = first.into_iter().chain(std::iter::from_fn(|| rest.next()));
            prop_assert_eq!(plain(all), naive.clone());
            prop_assert!(rest.next().is_none());

            let slices: Vec<_> = bytes.chunks_mut(buffer).map(std::io::IoSliceMut::new).collect();
            let parts = Parts::many(&slices, received.reported);
            let mut scattered =
                Datagrams::new(parts, NOWHERE.lend(), &received, Meta::new(None, &[]));
            prop_assert_eq!(plain(scattered.clone()), naive.clone());
            for left in (0..naive.len()).rev() {
                scattered.next();
                prop_assert_eq!(scattered.len(), left);
            }
        }
    }

    #[test]
    fn d19_a_message_without_its_segment_size_gives_an_empty_truncated_datagram() {
        let lost = Truncation { control: true, segment_size: true, ..Truncation::NONE };
        let message = message(b"abcd", received(4, None, lost));
        assert!(message.truncated());
        assert_eq!(message.datagrams().len(), 1);
        assert_eq!(plain(message.datagrams()), [(Vec::new(), true)]);
        assert_eq!(message.data(), b"abcd");
    }

    #[test]
    fn d33_control_data_truncated_alone_hides_nothing() {
        let control = Truncation { control: true, ..Truncation::NONE };
        let message = message(b"abcd", received(4, None, control));
        assert!(message.control_truncated() && !message.truncated());
        assert_eq!(plain(message.datagrams()), [(b"abcd".to_vec(), false)]);
    }

    #[test]
    fn a_truncated_message_has_a_full_length_only_if_reported() {
        let full_len = |received: Received| message(b"four", received).full_len();
        assert_eq!(full_len(received(4, None, truncation(true))), None);
        assert_eq!(full_len(received(9, None, truncation(true))), Some(9));
        assert_eq!(full_len(received(4, None, Truncation::NONE)), Some(4));
    }
}

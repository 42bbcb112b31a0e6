//! Received messages and datagrams whose bytes may be changed in place.

#[cfg(test)]
mod tests;

use std::io::IoSliceMut;
use std::iter::FusedIterator;
use std::mem;

use crate::recv::datagram::Datagram;
use crate::recv::envelope::{Envelope, accessors};
use crate::recv::message::Message;
use crate::recv::received::{Missing, Received};
use crate::recv::scattered::Parts;
use crate::recv::split::Split;

/// The methods of a message and a datagram that can be changed.
macro_rules! in_place_accessors {
    () => {
        /// Length in bytes.
        #[must_use]
        pub fn len(&self) -> usize {
            self.data.len()
        }

        /// The bytes received.
        #[must_use]
        pub fn data(&self) -> &[u8] {
            self.data
        }

        /// The bytes received, mutable.
        #[must_use]
        pub fn data_mut(&mut self) -> &mut [u8] {
            self.data
        }

        accessors!();
    };
}

/// A message in a [`RecvBatch`](crate::RecvBatch), whose bytes may be changed in place.
///
/// [`as_message`](Self::as_message) has the rest of what there is to know of it.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for mut message in batch.messages_mut() {
///     message.data_mut().reverse();
///     let count = message.as_message().datagrams().count();
///     println!("{count} datagrams to answer by {:?}", message.reply(b"thanks"));
/// }
/// assert!(batch.iter().all(|d| d.data() == b"olleh"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MessageMut<'a> {
    data: &'a mut [u8],
    received: Received,
    envelope: Envelope<'a>,
}

impl<'a> MessageMut<'a> {
    #[inline]
    pub(crate) fn new(data: &'a mut [u8], received: Received, envelope: Envelope<'a>) -> Self {
        Self { data, received, envelope }
    }

    in_place_accessors!();

    /// Whether bytes or datagram boundaries are missing (see [`Message::truncated`]).
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.received.truncated()
    }

    /// The message, to be read.
    #[must_use]
    pub fn as_message(&self) -> Message<'_> {
        Message::new(Parts::one(self.data), self.received, self.envelope)
    }

    /// The message, which is not changed any more.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// socket.recv_into(&mut batch)?;
    /// let decrypted: Vec<_> = batch.messages_mut().map(|mut message| {
    ///     message.data_mut().make_ascii_uppercase();
    ///     message.into_message()
    /// }).collect();
    /// assert_eq!(decrypted[0].data(), b"HELLO");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_message(self) -> Message<'a> {
        Message::new(Parts::one(self.data), self.received, self.envelope)
    }

    /// The datagrams in the message: one, or the segments of a coalesced message (see
    /// [`Datagrams`](crate::iter::Datagrams)).
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// socket.recv_into(&mut batch)?;
    /// for mut message in batch.messages_mut() {
    ///     for mut datagram in message.datagrams_mut() {
    ///         datagram.data_mut()[0] = b'j';
    ///     }
    ///     assert_eq!(message.data(), b"jello");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn datagrams_mut(&mut self) -> DatagramsMut<'_> {
        DatagramsMut::new(self.data, &self.received, self.envelope)
    }

    #[inline]
    pub(crate) fn into_datagrams_mut(self) -> DatagramsMut<'a> {
        DatagramsMut::new(self.data, &self.received, self.envelope)
    }
}

/// One received datagram, whose bytes may be changed in place: to decrypt it, or to rewrite its header.
///
/// [`RecvBatch::iter_mut`](crate::RecvBatch::iter_mut) yields them.
/// [`into_datagram`](Self::into_datagram) makes one that can be sent on from where it is.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for mut datagram in batch.iter_mut() {
///     datagram.data_mut().make_ascii_uppercase();
///     println!("{} bytes to answer by {:?}", datagram.len(), datagram.reply(b"thanks"));
/// }
/// assert!(batch.iter().all(|d| d.data() == b"HELLO"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct DatagramMut<'a> {
    data: &'a mut [u8],
    envelope: Envelope<'a>,
    missing: Missing,
}

impl<'a> DatagramMut<'a> {
    in_place_accessors!();

    /// Whether its end is missing.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.as_datagram().truncated()
    }

    /// The datagram, to be read.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvBatch};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut batch = RecvBatch::new(16, 1500);
    /// socket.recv_into(&mut batch)?;
    /// for datagram in batch.iter_mut() {
    ///     if let Some(full_len) = datagram.as_datagram().full_len() {
    ///         println!("{} of {full_len} bytes", datagram.len());
    ///     }
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn as_datagram(&self) -> Datagram<'_> {
        Datagram::new(Parts::one(self.data), self.envelope, self.missing)
    }

    /// The datagram, which is not changed any more. Its bytes can be sent from where they are:
    ///
    /// ```
    /// use mmsg::{BatchSocket, BatchSocketExt, RecvBatch};
    /// # let server = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # client.send_to(b"hello", server.local_addr()?)?;
    /// let mut batch = RecvBatch::new(64, 1500);
    /// server.recv_into(&mut batch)?;
    /// let replies = batch.iter_mut().filter_map(|mut datagram| {
    ///     datagram.data_mut().make_ascii_uppercase();
    ///     let datagram = datagram.into_datagram();
    ///     datagram.reply(datagram.data())
    /// });
    /// server.send_each(replies, |_, error| eprintln!("reply: {error}"))?;
    /// # let mut reply = [0; 8];
    /// # assert_eq!((client.recv(&mut reply)?, &reply[..5]), (5, &b"HELLO"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn into_datagram(self) -> Datagram<'a> {
        Datagram::new(Parts::one(self.data), self.envelope, self.missing)
    }
}

/// Iterates over the datagrams of one message, whose bytes may be changed in place.
///
/// Like [`Datagrams`](crate::iter::Datagrams) it yields a [`truncated`](DatagramMut::truncated) datagram where
/// bytes are missing.
///
/// ```
/// use mmsg::{BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut batch = RecvBatch::new(16, 1500);
/// socket.recv_into(&mut batch)?;
/// for mut message in batch.messages_mut() {
///     message.datagrams_mut().for_each(|mut d| d.data_mut().fill(0));
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct DatagramsMut<'a> {
    /// The bytes not yielded yet.
    rest: &'a mut [u8],
    envelope: Envelope<'a>,
    split: Split,
}

impl<'a> DatagramsMut<'a> {
    #[inline]
    fn new(data: &'a mut [u8], received: &Received, envelope: Envelope<'a>) -> Self {
        let (split, len) = Split::new(received, data.len());
        Self { rest: &mut data[..len], envelope, split }
    }
}

impl<'a> Iterator for DatagramsMut<'a> {
    type Item = DatagramMut<'a>;

    #[inline]
    fn next(&mut self) -> Option<DatagramMut<'a>> {
        let (len, missing) = self.split.next(self.rest.len())?;
        let (data, rest) = mem::take(&mut self.rest).split_at_mut(len);
        self.rest = rest;
        Some(DatagramMut { data, envelope: self.envelope, missing })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.split.count(self.rest.len());
        (left, Some(left))
    }
}

impl ExactSizeIterator for DatagramsMut<'_> {}
impl FusedIterator for DatagramsMut<'_> {}

/// The datagrams of a message whose first `len` bytes lie in several buffers. Each has its bytes in the
/// first buffer that holds any.
pub(crate) fn split_scattered<'a>(
    buffers: &'a mut [IoSliceMut<'_>],
    len: usize,
    received: Received,
    envelope: Envelope<'a>,
) -> impl Iterator<Item = DatagramMut<'a>> {
    let (mut split, mut left) = Split::new(&received, len);
    let mut buffers = buffers.iter_mut();
    let mut head: &mut [u8] = &mut [];
    std::iter::from_fn(move || {
        let (len, missing) = split.next(left)?;
        left -= len;
        let mut data: &mut [u8] = &mut [];
        let mut wanted = len;
        while wanted > 0 {
            if head.is_empty() {
                head = &mut *buffers.next()?;
                continue;
            }
            let here = wanted.min(head.len());
            let (now, rest) = mem::take(&mut head).split_at_mut(here);
            wanted -= here;
            head = rest;
            if data.is_empty() {
                data = now;
            }
        }
        Some(DatagramMut { data, envelope, missing })
    })
}

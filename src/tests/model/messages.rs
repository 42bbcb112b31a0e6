//! Messages to be sent, and their datagrams.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use super::ops::{Batch, Shape};
use crate::sys::fault::errno;
use crate::{Ecn, SendMeta, SendMsg};

const IMPOSSIBLE: SendMeta = SendMeta::new().with_source(IpAddr::V6(Ipv6Addr::LOCALHOST));

/// A message that the model sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Msg {
    /// Which of the two receivers it goes to.
    pub(super) dest: usize,
    pub(super) data: Vec<u8>,
    /// The segment size that it asks for.
    pub(super) own: Option<u16>,
    /// Whether it is gathered from two buffers.
    gathered: bool,
    pub(super) ecn: bool,
    pub(super) bad: Option<Bad>,
}

/// Why no system sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It has 70,000 bytes.
    TooLong,
    /// It goes to port 0.
    Nowhere,
    /// It has a source of another family: the library rejects it.
    Impossible,
}

/// Stands for an error that is not the system's.
pub(super) const NO_ERRNO: i32 = -1;

impl Bad {
    pub(super) fn errno(self) -> i32 {
        match self {
            Self::TooLong => errno::EMSGSIZE,
            // As the standard library meets it here: EINVAL on Linux.
            Self::Nowhere => UdpSocket::bind("127.0.0.1:0")
                .and_then(|socket| socket.send_to(b"nowhere", "127.0.0.1:0"))
                .expect_err("there is no port 0")
                .raw_os_error()
                .expect("the system's"),
            Self::Impossible => NO_ERRNO,
        }
    }
}

impl Msg {
    /// The datagrams that it is to be.
    pub(super) fn datagrams(&self) -> Vec<&[u8]> {
        match self.own {
            Some(size) if !self.data.is_empty() => self.data.chunks(size.into()).collect(),
            _ => vec![&self.data],
        }
    }

    /// Whether both can be segments of one GSO batch.
    pub(super) fn goes_with(&self, first: &Self) -> bool {
        let alike =
            (self.dest, self.data.len(), self.ecn) == (first.dest, first.data.len(), first.ecn);
        alike && !self.data.is_empty() && self.own.is_none() && !self.gathered && self.bad.is_none()
    }

    fn to_send<'a>(
        &self,
        data: &'a [u8],
        parts: &'a [IoSlice<'a>; 2],
        to: &[SocketAddr; 2],
    ) -> SendMsg<'a> {
        let mut dest = to[self.dest];
        if self.bad == Some(Bad::Nowhere) {
            dest.set_port(0);
        }
        let mut msg = match self.gathered {
            true => SendMsg::gather(parts).with_dest(dest),
            false => SendMsg::to(dest, data),
        };
        if self.ecn {
            msg = msg.with_ecn(Ecn::Ect0);
        }
        if self.bad == Some(Bad::Impossible) {
            msg = msg.with_meta(&IMPOSSIBLE);
        }
        match self.own {
            Some(size) => msg.with_segment_size(size),
            None => msg,
        }
    }
}

/// Lends `msgs` as the library takes them. Up to three in a row lie side by side in memory.
pub(super) fn lend<R>(
    msgs: &[Msg],
    to: &[SocketAddr; 2],
    call: impl FnOnce(&[SendMsg<'_>]) -> R,
) -> R {
    let gap = |i: usize| usize::from(i % 3 == 1);
    // Copied whole: byte by byte, a long batch sent over and over takes minutes where std is not optimized.
    let mut memory = Vec::new();
    for (i, msg) in msgs.iter().enumerate() {
        memory.extend_from_slice(&msg.data);
        memory.resize(memory.len() + gap(i), 0);
    }
    let mut rest = &memory[..];
    let payloads: Vec<_> = (msgs.iter().enumerate())
        .map(|(i, msg)| {
            let (data, after) = rest.split_at(msg.data.len());
            rest = &after[gap(i)..];
            data
        })
        .collect();
    let parts: Vec<[IoSlice<'_>; 2]> = payloads
        .iter()
        .map(|data| {
            let (one, other) = data.split_at(data.len() / 3);
            [IoSlice::new(one), IoSlice::new(other)]
        })
        .collect();
    let sends: Vec<_> = (msgs.iter().zip(&payloads).zip(&parts))
        .map(|((msg, data), parts)| msg.to_send(data, parts, to))
        .collect();
    call(&sends)
}

/// Makes the messages of a batch; `next` is the number of the first, which their bytes begin with.
/// Without segmentation there are none with a segment size.
pub(super) fn make(batch: Batch, next: &mut u32, segmentation: bool) -> Vec<Msg> {
    let seed = usize::from(batch.seed);
    let make = |i: usize| {
        let number = *next;
        *next += 1;
        let turn = i.wrapping_mul(7).wrapping_add(seed);
        let (dest, len, own) = match batch.shape {
            Shape::Alike => (seed % 2, [40, 40, 4, 300][seed / 2 % 4], None),
            Shape::Runs => (i / 5 % 2, [60, 40, 300][(i / 4 + seed) % 3], None),
            Shape::Mixed => (turn % 2, [0, 4, 40, 40, 41, 300, 1][turn % 7], None),
            Shape::OwnSegments => {
                let own = [None, Some(10), Some(40), None, Some(200)][turn % 5];
                (turn / 3 % 2, [35, 160, 40, 0, 9][turn % 5], own.filter(|_| segmentation))
            }
        };
        let bad = match (batch.shape, turn % 11, seed / 4 % 4) {
            (Shape::Mixed, 5, 0) => Some(Bad::TooLong),
            (Shape::Mixed, 5, 1) => Some(Bad::Nowhere),
            (Shape::Mixed, 5, 2) => Some(Bad::Impossible),
            _ => None,
        };
        let len = if bad == Some(Bad::TooLong) { 70_000 } else { len };
        let start = number.to_be_bytes().into_iter();
        Msg {
            dest,
            data: start.chain((0..).map(|j| (number as usize + j) as u8)).take(len).collect(),
            own,
            gathered: seed % 5 == 4 && i % 3 == 1,
            ecn: seed % 7 == 6 && i / 4 % 2 == 1,
            bad,
        }
    };
    (0..batch.count).map(make).collect()
}

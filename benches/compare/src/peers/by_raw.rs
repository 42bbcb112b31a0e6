//! Raw `sendmmsg` and `recvmmsg` with headers built once: the limit. Each turn resets only the fields that the kernel
//! overwrote and the next call needs, and reads results in place. For IPv4 on little-endian 64-bit machines.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::slice;

use libc::{c_int, c_uint, iovec, mmsghdr, sockaddr_in, socklen_t};

use super::Peer;
use crate::load::{self, COALESCED_LEN, Datagram, ECN, Load, SLOT_LEN};
use crate::wire::Wire;

/// One datagram per message.
pub type Plain = Raw<false, false>;
/// Prepared GSO batches, and GRO.
pub type Gso = Raw<true, false>;
/// The same from separate payloads.
pub type ScatteredGso = Raw<true, true>;

pub struct Raw<const GSO: bool, const SCATTERED: bool> {
    sender: Sender,
    receiver: Receiver,
    metadata: bool,
}

impl<const GSO: bool, const SCATTERED: bool> Peer for Raw<GSO, SCATTERED> {
    fn new(load: &Load, wire: &Wire) -> io::Result<Self> {
        let (segments, slots, len) = match GSO {
            true => (load.segments(), load.coalesced_slots(), COALESCED_LEN),
            false => (1, load.slots, SLOT_LEN),
        };
        if GSO {
            wire.enable_gro()?;
        }
        wire.enable_metadata(load.metadata)?;
        let segment = (segments > 1).then_some(load.payload as u16);
        let list = load.batches(&wire.to, segments).map(|(to, batch)| {
            let apart = |payload: &[u8]| &*payload.to_vec().leak();
            let buffers = match SCATTERED {
                true => batch.chunks(load.payload).map(apart).collect(),
                false => vec![batch],
            };
            (to, buffers)
        });
        let list: Vec<_> = list.collect();
        let sender = Sender::new(&list, segment, load.metadata);
        let receiver = Receiver::new(slots, len, load.metadata || segment.is_some());
        Ok(Self { sender, receiver, metadata: load.metadata })
    }

    fn send(&mut self, wire: &Wire) {
        self.sender.send(&wire.near);
    }

    #[inline(always)]
    fn receive(&mut self, wire: &Wire, dest: usize, mut see: impl FnMut(Datagram<'_>)) {
        let received = self.receiver.recv(&wire.far[dest]);
        for i in 0..received {
            let (addr, data) = (self.receiver.source(i), self.receiver.message(i));
            let control = self.receiver.control(i);
            let meta = if self.metadata {
                Some((control.tos & 0b11, IpAddr::V4(Ipv4Addr::from(control.dest))))
            } else {
                None
            };
            match control.segment {
                0 => see(Datagram { addr, data, meta }),
                size => data.chunks(size).for_each(|data| see(Datagram { addr, data, meta })),
            }
        }
        self.receiver.renew(received);
    }
}

/// Space for control messages, in eight-byte words for alignment.
type Control = [u64; 12];
/// Bytes of a control message's header: a word for the length, one for level and type.
const HEADER: usize = 16;
const SEGMENT: u64 = ty(libc::SOL_UDP, libc::UDP_GRO);
const PKTINFO: u64 = ty(libc::IPPROTO_IP, libc::IP_PKTINFO);
const TOS: u64 = ty(libc::IPPROTO_IP, libc::IP_TOS);

/// Headers of messages to send.
struct Sender {
    headers: Vec<mmsghdr>,
    // The headers point into these. Their memory stays in place when `Self` moves.
    _iovecs: Vec<iovec>,
    _names: Vec<sockaddr_in>,
    _control: Box<Control>,
}

impl Sender {
    /// Headers for `list`. The kernel splits messages longer than `segment` bytes.
    fn new(list: &[(SocketAddr, Vec<&'static [u8]>)], segment: Option<u16>, ecn: bool) -> Self {
        let mut names: Vec<_> = list.iter().map(|(to, _)| name(*to)).collect();
        let vec_of = |payload: &[u8]| iovec {
            iov_base: payload.as_ptr().cast_mut().cast(),
            iov_len: payload.len(),
        };
        let mut iovecs: Vec<_> =
            list.iter().flat_map(|(_, buffers)| buffers).map(|buffer| vec_of(buffer)).collect();
        // The segment size comes last, so that a message of one segment can omit it.
        let mut control = Box::new([0; 12]);
        let mut len = 0;
        if ecn {
            len = append(&mut control, len, (libc::IPPROTO_IP, libc::IP_TOS), &[ECN, 0, 0, 0]);
        }
        let ecn_len = len;
        if let Some(size) = segment {
            let ty = (libc::SOL_UDP, libc::UDP_SEGMENT);
            len = append(&mut control, len, ty, &size.to_ne_bytes());
        }
        let first = control.as_mut_ptr();
        let mut rest = &mut iovecs[..];
        let headers = list.iter().zip(&mut names).map(|((_, buffers), name)| {
            let (iovecs, others) = mem::take(&mut rest).split_at_mut(buffers.len());
            rest = others;
            let len_of_all: usize = buffers.iter().map(|buffer| buffer.len()).sum();
            let segmented = segment.is_some_and(|size| len_of_all > usize::from(size));
            let mut header = header(name, iovecs);
            header.msg_hdr.msg_controllen = if segmented { len } else { ecn_len };
            if header.msg_hdr.msg_controllen > 0 {
                header.msg_hdr.msg_control = first.cast();
            }
            header
        });
        let headers = headers.collect();
        Self { headers, _iovecs: iovecs, _names: names, _control: control }
    }

    fn send(&mut self, socket: &UdpSocket) {
        let (headers, len) = (self.headers.as_mut_ptr(), self.headers.len() as c_uint);
        // SAFETY: `len` headers, which point to memory of `self` and to payloads that are never freed.
        let sent = count(unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, len, 0) });
        assert_eq!(sent, self.headers.len());
    }
}

/// Headers to receive with, each with a buffer, space for an address and, if needed, for control messages.
struct Receiver {
    headers: Vec<mmsghdr>,
    slots: Vec<&'static mut [u8]>,
    names: Vec<sockaddr_in>,
    /// Empty without control messages.
    controls: Vec<Control>,
    _iovecs: Vec<iovec>,
}

/// What a message's control messages say.
#[derive(Default)]
struct Received {
    tos: u8,
    dest: [u8; 4],
    /// 0 if it is not coalesced.
    segment: usize,
}

impl Receiver {
    fn new(slots: usize, slot_len: usize, control: bool) -> Self {
        let mut buffers: Vec<_> = load::buffers(slots, slot_len).collect();
        let mut names = vec![name(SocketAddr::from(([0, 0, 0, 0], 0))); slots];
        let vec_of =
            |slot: &mut &mut [u8]| iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot_len };
        let mut iovecs: Vec<_> = buffers.iter_mut().map(vec_of).collect();
        let mut controls: Vec<Control> = vec![[0; 12]; if control { slots } else { 0 }];
        let rows = names.iter_mut().zip(&mut iovecs);
        let mut headers: Vec<_> =
            rows.map(|(name, iovec)| header(name, slice::from_mut(iovec))).collect();
        for (header, control) in headers.iter_mut().zip(&mut controls) {
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Control>();
        }
        Self { headers, slots: buffers, names, controls, _iovecs: iovecs }
    }

    /// Waits for one message and takes all that have arrived.
    #[inline(always)]
    fn recv(&mut self, socket: &UdpSocket) -> usize {
        let (headers, len) = (self.headers.as_mut_ptr(), self.headers.len() as c_uint);
        let flags = libc::MSG_WAITFORONE;
        // SAFETY: `len` headers; each points to its own memory in `self` and has the lengths of that
        // memory. No timeout.
        count(unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, len, flags, ptr::null_mut()) })
    }

    #[inline(always)]
    fn message(&self, i: usize) -> &[u8] {
        &self.slots[i][..self.headers[i].msg_len as usize]
    }

    #[inline(always)]
    fn source(&self, i: usize) -> SocketAddr {
        let name = &self.names[i];
        let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
        SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(name.sin_port)))
    }

    #[inline(always)]
    fn control(&self, i: usize) -> Received {
        let mut meta = Received::default();
        let Some(control) = self.controls.get(i) else { return meta };
        let words = self.headers[i].msg_hdr.msg_controllen / 8;
        let mut rest = control.get(..words).unwrap_or_default();
        // Linux writes them in this order; the check of the first turn would fail otherwise.
        if let [_, SEGMENT, size, others @ ..] = rest {
            meta.segment = *size as u32 as usize;
            rest = others;
        }
        // The destination is the third field of four bytes.
        if let [_, PKTINFO, _, dest, _, TOS, tos, ..] = rest {
            (meta.dest, meta.tos) = ((*dest as u32).to_le_bytes(), *tos as u8);
        }
        meta
    }

    /// Resets the first `count` headers for the next call.
    #[inline(always)]
    fn renew(&mut self, count: usize) {
        if !self.controls.is_empty() {
            for header in &mut self.headers[..count] {
                header.msg_hdr.msg_controllen = size_of::<Control>();
            }
        }
    }
}

fn header(name: &mut sockaddr_in, iovecs: &mut [iovec]) -> mmsghdr {
    // SAFETY: a C struct of null pointers and zero lengths is valid.
    let mut header: mmsghdr = unsafe { mem::zeroed() };
    header.msg_hdr.msg_name = ptr::from_mut(name).cast();
    header.msg_hdr.msg_namelen = size_of::<sockaddr_in>() as socklen_t;
    header.msg_hdr.msg_iov = iovecs.as_mut_ptr();
    header.msg_hdr.msg_iovlen = iovecs.len();
    header
}

fn name(addr: SocketAddr) -> sockaddr_in {
    let SocketAddr::V4(addr) = addr else { panic!("the benchmarks run on IPv4") };
    sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: addr.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
        sin_zero: [0; 8],
    }
}

/// Writes a control message with up to eight bytes of data at `at`. Returns where the next one goes.
fn append(control: &mut Control, at: usize, (level, name): (c_int, c_int), data: &[u8]) -> usize {
    let mut word = [0; 8];
    word[..data.len()].copy_from_slice(data);
    let words = [(HEADER + data.len()) as u64, ty(level, name), u64::from_le_bytes(word)];
    control[at / 8..][..3].copy_from_slice(&words);
    at + 24
}

const fn ty(level: c_int, name: c_int) -> u64 {
    level as u32 as u64 | (name as u32 as u64) << 32
}

fn count(n: c_int) -> usize {
    usize::try_from(n).unwrap_or_else(|_| panic!("{}", io::Error::last_os_error()))
}

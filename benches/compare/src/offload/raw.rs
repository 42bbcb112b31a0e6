//! The limit: libc's calls on headers that were built once and never change.
//!
//! What a program could do that knew its buffers and destinations in advance. Of what the kernel
//! overwrites, only what the next call needs is set anew.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use libc::{iovec, mmsghdr, sockaddr_in};

/// Headers for sending trains to IPv4 destinations, and for receiving.
pub struct Raw {
    send: Vec<mmsghdr>,
    recv: Vec<mmsghdr>,
    slot_len: usize,
    /// What the headers point at.
    memory: Memory,
}

struct Memory {
    _dests: Vec<sockaddr_in>,
    _send_iovecs: Vec<iovec>,
    _recv_iovecs: Vec<iovec>,
    recv_names: Vec<sockaddr_in>,
    controls: Vec<[u64; 8]>,
    payload: Vec<u8>,
}

/// One header's worth of a send: where to, the buffers of one message, and what length to cut it
/// into.
pub type Train<'a> = (SocketAddr, Vec<&'a [u8]>, Option<u16>);

impl Raw {
    /// Headers for prepared trains, and `slots` to receive.
    pub fn with_trains(trains: &[Train<'_>], slots: usize, slot_len: usize) -> Self {
        let mut dests: Vec<_> = trains.iter().map(|train| name(train.0)).collect();
        let mut controls: Vec<[u64; 8]> = trains.iter().map(|train| segment(train.2)).collect();
        controls.resize(trains.len() + slots, [0; 8]);
        let mut send_iovecs: Vec<iovec> = trains
            .iter()
            .flat_map(|(_, buffers, _)| buffers)
            .map(|b| vec_of(b.as_ptr(), b.len()))
            .collect();
        let payload = vec![0u8; slots * slot_len];
        let mut recv_iovecs: Vec<iovec> =
            payload.chunks(slot_len).map(|slot| vec_of(slot.as_ptr(), slot_len)).collect();
        let mut recv_names = vec![dests[0]; slots];

        let mut first = 0;
        let mut send = Vec::new();
        let rows = trains.iter().zip(&mut dests).zip(&mut controls);
        for (((_, buffers, cut), dest), control) in rows {
            let mut header = header(dest, &mut send_iovecs[first], buffers.len());
            if cut.is_some() {
                header.msg_hdr.msg_control = ptr::from_mut(control).cast();
                header.msg_hdr.msg_controllen = 24;
            }
            first += buffers.len();
            send.push(header);
        }
        let rows = recv_names.iter_mut().zip(&mut recv_iovecs).zip(&mut controls[trains.len()..]);
        let recv = rows
            .map(|((name, iovec), control)| {
                let mut header = header(name, iovec, 1);
                header.msg_hdr.msg_control = ptr::from_mut(control).cast();
                header.msg_hdr.msg_controllen = 64;
                header
            })
            .collect();
        let memory = Memory {
            _dests: dests,
            _send_iovecs: send_iovecs,
            _recv_iovecs: recv_iovecs,
            recv_names,
            controls,
            payload,
        };
        Self { send, recv, slot_len, memory }
    }

    /// Sends all messages and gives their number.
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (headers, len) = (self.send.as_mut_ptr(), self.send.len() as u32);
        // SAFETY: the headers point into `memory` and the caller's buffers, with right lengths.
        let n = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, len, libc::MSG_NOSIGNAL) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Receives what is there, at least one, and gives the number of messages.
    pub fn recv(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (headers, len) = (self.recv.as_mut_ptr(), self.recv.len() as u32);
        let flags = libc::MSG_WAITFORONE;
        // SAFETY: as above; the memory received into is nobody else's.
        let n = unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, len, flags, ptr::null_mut()) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        for header in &mut self.recv[..n] {
            header.msg_hdr.msg_namelen = mem::size_of::<sockaddr_in>() as u32;
            header.msg_hdr.msg_controllen = 64;
        }
        Ok(n)
    }

    /// Source, bytes and segment size of a received message; 0 for no train.
    pub fn received(&self, i: usize) -> (SocketAddr, &[u8], usize) {
        let len = self.recv[i].msg_len as usize;
        let bytes = &self.memory.payload[i * self.slot_len..][..len];
        let name = &self.memory.recv_names[i];
        let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
        let source = SocketAddr::from((ip, u16::from_be(name.sin_port)));
        // The control data of a train is one message: 16 bytes of header, then the size.
        let control = &self.memory.controls[self.send.len() + i];
        (source, bytes, (control[2] & 0xffff_ffff) as usize)
    }
}

fn header(name: &mut sockaddr_in, iovec: &mut iovec, iovecs: usize) -> mmsghdr {
    // SAFETY: a C struct of pointers and numbers, for which zero bytes are values.
    let mut header: mmsghdr = unsafe { mem::zeroed() };
    header.msg_hdr.msg_name = ptr::from_mut(name).cast();
    header.msg_hdr.msg_namelen = mem::size_of::<sockaddr_in>() as u32;
    header.msg_hdr.msg_iov = iovec;
    header.msg_hdr.msg_iovlen = iovecs;
    header
}

fn vec_of(start: *const u8, len: usize) -> iovec {
    iovec { iov_base: start.cast_mut().cast(), iov_len: len }
}

fn name(dest: SocketAddr) -> sockaddr_in {
    let SocketAddr::V4(dest) = dest else { panic!("IPv4 only") };
    sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: dest.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(dest.ip().octets()) },
        sin_zero: [0; 8],
    }
}

/// The bytes of a `UDP_SEGMENT` control message on a 64-bit machine.
fn segment(cut: Option<u16>) -> [u64; 8] {
    let level_and_type = [libc::SOL_UDP.to_ne_bytes(), libc::UDP_SEGMENT.to_ne_bytes()].concat();
    let mut control = [0; 8];
    control[0] = 18;
    control[1] = u64::from_ne_bytes(level_and_type.try_into().expect("two ints"));
    control[2] = u64::from(cut.unwrap_or(0)).to_le();
    control
}

/// Gives a socket a receive buffer that holds the largest batch, beyond the system's bound if the
/// process may.
pub fn grow_buffer(socket: &UdpSocket, bytes: i32) -> bool {
    let (value, len) = (ptr::from_ref(&bytes).cast(), mem::size_of::<i32>() as u32);
    for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
        // SAFETY: `value` points at `len` readable bytes.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, len) };
        let has = socket2::SockRef::from(socket).recv_buffer_size().unwrap_or(0);
        if has >= bytes as usize {
            return true;
        }
    }
    false
}

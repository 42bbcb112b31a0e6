//! The system calls by hand, on headers that are built once: what no library can beat.

use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use libc::{c_int, c_uint, c_void, iovec, mmsghdr, sockaddr_in, socklen_t};

/// Headers that all send the same payload to the same IPv4 address.
pub struct Sender {
    headers: Vec<mmsghdr>,
    /// What the headers point to; a vector's memory stays where it is when the vector moves.
    _iovec: Vec<iovec>,
    _name: Vec<sockaddr_in>,
}

impl Sender {
    pub fn new(to: SocketAddr, payload: &'static [u8], batch: usize) -> Self {
        let SocketAddr::V4(to) = to else { panic!("the benchmarks run on IPv4") };
        let mut name = vec![empty_name()];
        name[0].sin_family = libc::AF_INET as _;
        name[0].sin_port = to.port().to_be();
        name[0].sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
        let iov_base = payload.as_ptr().cast_mut().cast();
        let mut iovec = vec![iovec { iov_base, iov_len: payload.len() }];
        let mut header = empty_header();
        header.msg_hdr.msg_name = name.as_mut_ptr().cast();
        header.msg_hdr.msg_namelen = size_of::<sockaddr_in>() as socklen_t;
        header.msg_hdr.msg_iov = iovec.as_mut_ptr();
        header.msg_hdr.msg_iovlen = 1;
        Self { headers: vec![header; batch], _iovec: iovec, _name: name }
    }

    pub fn send(&mut self, socket: &UdpSocket) -> usize {
        let (headers, len) = (self.headers.as_mut_ptr(), self.headers.len() as c_uint);
        // SAFETY: `len` headers, whose pointers are to memory that `self` owns and to a payload
        // that lives for ever.
        count(unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, len, 0) })
    }
}

/// Headers with a buffer and room for an IPv4 address each. The kernel leaves them as they must be
/// for the next call, as long as nobody asks for control data.
pub struct Receiver {
    headers: Vec<mmsghdr>,
    payload: Vec<u8>,
    slot_len: usize,
    _iovecs: Vec<iovec>,
    _names: Vec<sockaddr_in>,
}

impl Receiver {
    pub fn new(slots: usize, slot_len: usize) -> Self {
        let mut payload = vec![0; slots * slot_len];
        let mut names = vec![empty_name(); slots];
        let mut iovecs = vec![NO_BUFFER; slots];
        let mut headers = vec![empty_header(); slots];
        let (base, first_name) = (payload.as_mut_ptr(), names.as_mut_ptr());
        let first_iovec = iovecs.as_mut_ptr();
        for (i, (header, iovec)) in headers.iter_mut().zip(&mut iovecs).enumerate() {
            iovec.iov_base = base.wrapping_add(i * slot_len).cast::<c_void>();
            iovec.iov_len = slot_len;
            header.msg_hdr.msg_name = first_name.wrapping_add(i).cast();
            header.msg_hdr.msg_namelen = size_of::<sockaddr_in>() as socklen_t;
            header.msg_hdr.msg_iov = first_iovec.wrapping_add(i);
            header.msg_hdr.msg_iovlen = 1;
        }
        Self { headers, payload, slot_len, _iovecs: iovecs, _names: names }
    }

    /// Waits for one message and takes those that wait with it.
    pub fn recv(&mut self, socket: &UdpSocket) -> usize {
        let (headers, len) = (self.headers.as_mut_ptr(), self.headers.len() as c_uint);
        let flags = libc::MSG_WAITFORONE as _;
        // SAFETY: `len` headers, each with pointers to memory of its own that `self` owns, and
        // the lengths of that memory beside them; no timeout.
        count(unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, len, flags, ptr::null_mut()) })
    }

    pub fn message(&self, i: usize) -> &[u8] {
        &self.payload[i * self.slot_len..][..self.headers[i].msg_len as usize]
    }
}

/// Gives a socket room for `bytes` of waiting datagrams, or as much as may be had, and tells how
/// much that is.
pub fn grow_receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let socket2 = socket2::SockRef::from(socket);
    socket2.set_recv_buffer_size(bytes)?;
    if socket2.recv_buffer_size()? < bytes {
        let bytes = bytes as c_int;
        // Beyond the system's limit, which root may do; everybody else goes without.
        // SAFETY: the option's value is one C int.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                ptr::from_ref(&bytes).cast(),
                size_of::<c_int>() as socklen_t,
            );
        }
    }
    socket2.recv_buffer_size()
}

/// Has a socket's datagrams carry the don't-fragment bit, whatever the path's MTU: what QUIC wants. It
/// spares the kernel the choice of an identification for each datagram.
#[allow(dead_code)] // One benchmark's.
pub fn never_fragment(socket: &UdpSocket) {
    let value = libc::IP_PMTUDISC_PROBE;
    // SAFETY: the option's value is one C int.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            ptr::from_ref(&value).cast(),
            size_of::<c_int>() as socklen_t,
        )
    };
    assert_eq!(status, 0, "every Linux has this option");
}

fn empty_header() -> mmsghdr {
    // SAFETY: a C struct of null pointers and zero lengths is valid, and so is its padding.
    unsafe { mem::zeroed() }
}

fn empty_name() -> sockaddr_in {
    // SAFETY: a C struct of numbers.
    unsafe { mem::zeroed() }
}

const NO_BUFFER: iovec = iovec { iov_base: ptr::null_mut(), iov_len: 0 };

fn count(n: c_int) -> usize {
    usize::try_from(n).unwrap_or_else(|_| panic!("{}", io::Error::last_os_error()))
}

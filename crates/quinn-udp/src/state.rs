//! The state of a socket, and the calls on it.

use std::io::{self, IoSliceMut};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mmsg::error_queue::{Report, drain_errors};
use mmsg::errors::is_too_big;
use mmsg::offload::OffloadState;
use mmsg::options::Fragmentation;
use mmsg::{Ancillary, BatchSocket, Message, Offload};

use crate::convert::{recv_meta, send_meta, send_msg};
use crate::{BATCH_SIZE, RecvMeta, Transmit, TransportError, UdpSockRef};

/// The maximum number of datagrams in a coalesced message on Linux.
const MAX_COALESCED: usize = 64;
/// The longest UDP payload, and so the longest coalesced message, over IPv4 and over IPv6.
const LONGEST_V4: usize = 65_535 - 8 - 20;
const LONGEST: usize = 65_535 - 8;
/// The minimum time between two logged send errors, as in quinn-udp.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(all(feature = "log", not(feature = "tracing")))]
use log::warn;
#[cfg(feature = "tracing")]
use tracing::warn;
#[cfg(not(any(feature = "log", feature = "tracing")))]
macro_rules! warn {
    ($($arg:tt)*) => { let _ = format_args!($($arg)*); };
}

/// What is remembered of a socket between calls. Threads may share it. It belongs to one socket.
///
/// ```
/// use mmsg_quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
/// use std::{io::IoSliceMut, net::UdpSocket};
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// let state = UdpSocketState::new((&socket).into())?;
/// state.set_send_buffer_size((&socket).into(), 1 << 20)?;
/// state.set_recv_buffer_size((&socket).into(), 1 << 20)?;
/// println!(
///     "buffers {} and {}, {} segments a send, {} a receive, fragments {}",
///     state.send_buffer_size((&socket).into())?,
///     state.recv_buffer_size((&socket).into())?,
///     state.max_gso_segments(),
///     state.gro_segments(),
///     state.may_fragment(),
/// );
///
/// let destination = socket.local_addr()?;
/// let segment_size = Some(1200);
/// let transmit =
///     Transmit { destination, ecn: None, contents: &[7; 2000], segment_size, src_ip: None };
/// state.try_send((&socket).into(), &transmit)?;
///
/// let mut memory = vec![0; BATCH_SIZE * 65_535];
/// let mut buffers: Vec<_> = memory.chunks_mut(65_535).map(IoSliceMut::new).collect();
/// let mut metas = [RecvMeta::default(); BATCH_SIZE];
/// # mmsg_quinn_udp::UdpSockRef::from(&socket).set_nonblocking(false)?;
/// let count = state.recv((&socket).into(), &mut buffers, &mut metas)?;
/// let first = &metas[0];
/// println!("{count} messages; the first: {} bytes in steps of {}", first.len, first.stride);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UdpSocketState {
    offload: OffloadState,
    /// For receives: unlike the state with GRO, it takes short buffers.
    plain: OffloadState,
    may_fragment: bool,
    /// The longest message that may come.
    longest: usize,
    last_logged: Mutex<Option<Instant>>,
}

impl UdpSocketState {
    /// Makes the socket non-blocking, forbids fragmentation, and turns on GSO, GRO, ECN bits, destination addresses and
    /// timestamps where the system supports them.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `UDP_SEGMENT` or `UDP_CORK` is set on the socket; else the system's error.
    pub fn new(socket: UdpSockRef<'_>) -> io::Result<Self> {
        let socket = &*socket.0;
        socket.set_nonblocking(true)?;
        let _ = (Ancillary::DEST | Ancillary::TOS | Ancillary::TIMESTAMP).enable(socket)?;
        let may_fragment = Fragmentation::Probe.set(socket).is_err();
        let plain = Offload::builder().gso(false).gro(false).build_state(socket)?;
        let offload = OffloadState::new(socket)?;
        let longest = if socket.local_addr()?.is_ipv4() { LONGEST_V4 } else { LONGEST };
        Ok(Self { offload, plain, may_fragment, longest, last_logged: Mutex::new(None) })
    }

    /// As [`try_send`](Self::try_send), but logs all errors except `WouldBlock` instead of returning them, at most one a
    /// minute, and none about too big datagrams.
    ///
    /// ```
    /// # use mmsg_quinn_udp::{Transmit, UdpSocketState};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let state = UdpSocketState::new((&socket).into())?;
    /// # let destination = socket.local_addr()?;
    /// # let transmit =
    /// #     Transmit { destination, ecn: None, contents: b"a", segment_size: None, src_ip: None };
    /// # #[expect(deprecated)]
    /// state.send((&socket).into(), &transmit)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `WouldBlock`.
    #[deprecated(note = "it hides errors: use `try_send`")]
    pub fn send(&self, socket: UdpSockRef<'_>, transmit: &Transmit<'_>) -> io::Result<()> {
        match self.try_send(socket, transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) if !is_too_big(&error) => self.log(&error, transmit),
            _ => {}
        }
        Ok(())
    }

    /// Sends a message with one system call; if the system rejects its GSO batch, with one more for each datagram.
    ///
    /// # Errors
    ///
    /// The system's error: then nothing was sent.
    pub fn try_send(&self, socket: UdpSockRef<'_>, transmit: &Transmit<'_>) -> io::Result<()> {
        let meta = send_meta(transmit);
        let msg = send_msg(transmit, &meta);
        self.offload.on(&*socket.0).send_batch(&[msg]).map(|_| ())
    }

    /// Receives up to [`BATCH_SIZE`] messages with one system call, one into each buffer, and returns how many. A
    /// blocking socket waits for the first only.
    ///
    /// A buffer shorter than 65,527 bytes, over IPv4 65,507, turns GRO off after this call. Of a coalesced message that does
    /// not fit, this call returns the whole datagrams that do; coalesced messages that still wait afterwards come as one
    /// datagram each, or truncated.
    ///
    /// # Errors
    ///
    /// `NotConnected` if a blocking socket was shut down; else the system's error.
    pub fn recv(
        &self,
        socket: UdpSockRef<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let count = bufs.len().min(meta.len()).min(BATCH_SIZE);
        let bufs = &mut bufs[..count];
        let mut each = |i: usize, message: Message<'_>| {
            let extra = message.meta();
            meta[i] = recv_meta(message);
            meta[i].interface_index = extra.interface;
            meta[i].timestamp =
                extra.timestamp.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        };
        let result = self.plain.on(&*socket.0).recv_slices(bufs, &mut each);
        if self.offload.gro() && bufs.iter().any(|buf| buf.len() < self.longest) {
            self.offload.disable_gro(&*socket.0)?;
        }
        match result {
            Ok(0) if count > 0 => Err(io::ErrorKind::NotConnected.into()),
            result => result,
        }
    }

    /// Has the system queue ICMP errors for [`recv_transport_error`](Self::recv_transport_error): Linux and Android. Does
    /// nothing elsewhere.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn enable_transport_errors(&self, socket: UdpSockRef<'_>) -> io::Result<()> {
        Ancillary::ERRORS.enable(&*socket.0).map(|_| ())
    }

    /// Takes one error from the socket's queue, or `None` if it is empty.
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let state = mmsg_quinn_udp::UdpSocketState::new((&socket).into())?;
    /// state.enable_transport_errors((&socket).into())?;
    /// while let Some(error) = state.recv_transport_error((&socket).into())? {
    ///     println!("{:?} from {:?}, MTU {:?}", error.payload, error.addr, error.mtu());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn recv_transport_error(
        &self,
        socket: UdpSockRef<'_>,
    ) -> io::Result<Option<TransportError>> {
        let mut report = [Report::EMPTY];
        match drain_errors(&*socket.0, &mut report) {
            Ok(count) => Ok(report[..count].first().cloned().map(TransportError::from)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many datagrams one send can carry: 1 while GSO is off.
    #[must_use]
    pub fn max_gso_segments(&self) -> usize {
        self.offload.max_segments()
    }

    /// How many datagrams one buffer may receive: 1 without GRO. For GRO, each buffer needs 65,527 bytes, over IPv4 65,507.
    #[must_use]
    pub fn gro_segments(&self) -> usize {
        if self.offload.gro() { MAX_COALESCED } else { 1 }
    }

    /// Turns GRO off, for good. quinn-udp has this function on Windows, where GRO is off here.
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = mmsg_quinn_udp::UdpSocketState::new((&socket).into())?;
    /// state.set_gro((&socket).into(), false)?;
    /// assert_eq!(state.gro_segments(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` if it shall be on and is off; else the system's error.
    pub fn set_gro(&self, socket: UdpSockRef<'_>, enable: bool) -> io::Result<()> {
        match enable {
            false => self.offload.disable_gro(&*socket.0),
            true if self.offload.gro() => Ok(()),
            true => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sets the size of the socket's send buffer.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_send_buffer_size(&self, socket: UdpSockRef<'_>, bytes: usize) -> io::Result<()> {
        socket.0.set_send_buffer_size(bytes)
    }

    /// Sets the size of the socket's receive buffer.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_recv_buffer_size(&self, socket: UdpSockRef<'_>, bytes: usize) -> io::Result<()> {
        socket.0.set_recv_buffer_size(bytes)
    }

    /// The size of the socket's send buffer. Linux returns twice the size that was set.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn send_buffer_size(&self, socket: UdpSockRef<'_>) -> io::Result<usize> {
        socket.0.send_buffer_size()
    }

    /// The size of the socket's receive buffer. Linux returns twice the size that was set.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn recv_buffer_size(&self, socket: UdpSockRef<'_>) -> io::Result<usize> {
        socket.0.recv_buffer_size()
    }

    /// Does nothing: Apple's private calls are left out. quinn-udp has it on Apple's systems, with the feature
    /// `fast-apple-datapath`, where it is `unsafe`.
    ///
    /// ```
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let state = mmsg_quinn_udp::UdpSocketState::new((&socket).into())?;
    /// state.set_apple_fast_path();
    /// assert!(!state.is_apple_fast_path_enabled());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_apple_fast_path(&self) {}

    /// Whether Apple's private calls are used: they are not.
    #[must_use]
    pub fn is_apple_fast_path_enabled(&self) -> bool {
        false
    }

    /// Whether the IP layer might fragment datagrams.
    #[must_use]
    pub fn may_fragment(&self) -> bool {
        self.may_fragment
    }

    /// Logs an error, at most once a minute.
    #[cold]
    fn log(&self, error: &io::Error, transmit: &Transmit<'_>) {
        let mut last = self.last_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > LOG_INTERVAL) {
            *last = Some(Instant::now());
            let Transmit { destination, src_ip, ecn, segment_size, contents } = transmit;
            let len = contents.len();
            warn!(
                "a send of {len} bytes failed: {error} ({destination}, {src_ip:?}, {ecn:?}, {segment_size:?})"
            );
        }
    }
}

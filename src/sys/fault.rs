//! A script of system call results, for tests of the paths that a kernel takes when it pleases.
//!
//! Each thread has its own script and its own log. A call takes the next entry, if there is one
//! for its kind; without one it goes to the kernel as ever. A test that models the kernel installs
//! a function that decides about each call in place of the list ([`decide_by`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem;
#[cfg(windows)]
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's error numbers, by the names that Unix has for them.
#[cfg(unix)]
pub(crate) use libc as errno;
#[cfg(windows)]
pub(crate) mod errno {
    pub(crate) use windows_sys::Win32::Networking::WinSock::{
        WSA_NOT_ENOUGH_MEMORY as ENOMEM, WSAEACCES as EACCES, WSAEACCES as EPERM,
        WSAECONNREFUSED as ECONNREFUSED, WSAEHOSTUNREACH as EHOSTUNREACH, WSAEINVAL as EINVAL,
        WSAEMSGSIZE as EMSGSIZE, WSAENETUNREACH as ENETUNREACH, WSAENOBUFS as ENOBUFS,
        WSAEOPNOTSUPP as EOPNOTSUPP, WSAEPROTONOSUPPORT as EPROTO, WSAEWOULDBLOCK as EAGAIN,
    };
    // What Windows lacks: one of the same meaning to the library, and one without a meaning.
    pub(crate) use windows_sys::Win32::Networking::WinSock::WSAEDISCON as EPIPE;
    pub(crate) use windows_sys::Win32::Networking::WinSock::WSAEOPNOTSUPP as EIO;
}

/// Where the library would make a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    RecvMmsg,
    SendMmsg,
    RecvMsg,
    SendMsg,
    /// The question whether the multi-message calls may be made.
    Permitted,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The kernel decides.
    Kernel,
    /// The kernel gets no more than this many of the messages; for the multi-message calls only.
    AtMost(usize),
    /// The call fails with this error number, and the kernel sees nothing of the call.
    Fail(i32),
}

/// A call that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedCall {
    pub(crate) call: Call,
    /// Messages that the library offered.
    pub(crate) offered: usize,
    /// What the script had for it, `Kernel` if nothing.
    pub(crate) fate: Fate,
}

/// Decides about a call, given how many messages the library offers.
type Decide = Box<dyn FnMut(Call, usize) -> Fate>;

#[derive(Default)]
struct Script {
    fates: VecDeque<(Call, Fate)>,
    decide: Option<Decide>,
    log: Vec<LoggedCall>,
}

thread_local!(static SCRIPT: RefCell<Script> = RefCell::default());

/// Scripts the calls to come on this thread, each kind in the order given, and empties the log.
pub(crate) fn script(fates: impl IntoIterator<Item = (Call, Fate)>) {
    SCRIPT.with_borrow_mut(|script| {
        script.fates = fates.into_iter().collect();
        script.decide = None;
        script.log.clear();
    });
}

/// Lets `decide` answer every call on this thread until the next [`script`]. It keeps its own log,
/// and may panic where a call goes on for ever.
#[cfg_attr(not(mmsg_calls), allow(dead_code))] // Only the model of Linux uses it.
pub(crate) fn decide_by(decide: impl FnMut(Call, usize) -> Fate + 'static) {
    script([]);
    SCRIPT.with_borrow_mut(|script| script.decide = Some(Box::new(decide)));
}

/// The calls made on this thread since the last [`script`] or `log`. The script goes on.
pub(crate) fn log() -> Vec<LoggedCall> {
    SCRIPT.with_borrow_mut(|script| mem::take(&mut script.log))
}

/// Ends the script: the log, and a failed test if a scripted call never came.
pub(crate) fn finish() -> Vec<LoggedCall> {
    let left = SCRIPT.with_borrow_mut(|script| mem::take(&mut script.fates));
    assert!(left.is_empty(), "calls that never came: {left:?}");
    log()
}

thread_local!(static WITHOUT_MMSG: Cell<Option<bool>> = const { Cell::new(None) });

/// Whether the multi-message calls are out of use on this thread, if that was decided on it.
pub(super) fn without_mmsg() -> Option<bool> {
    WITHOUT_MMSG.get()
}

pub(super) fn set_without_mmsg(on: bool) {
    WITHOUT_MMSG.set(Some(on));
}

thread_local!(static RELEASE: Cell<Option<&'static str>> = const { Cell::new(None) });

/// Sets the kernel's release on this thread; `None` for the running kernel's.
#[cfg(test)]
pub(crate) fn set_release(text: Option<&'static str>) {
    RELEASE.set(text);
}

/// The release that was set on this thread.
pub(crate) fn release() -> Option<&'static str> {
    RELEASE.get()
}

#[cfg(unix)]
thread_local!(static SEND_BUFFER: Cell<Option<usize>> = const { Cell::new(None) });

/// Has sends on this thread treat control data as macOS does, with a send buffer of so many bytes.
#[cfg(all(test, unix))]
pub(crate) fn set_send_buffer(bytes: Option<usize>) {
    SEND_BUFFER.set(bytes);
}

/// The send buffer that was set on this thread.
#[cfg(unix)]
pub(crate) fn send_buffer() -> Option<usize> {
    SEND_BUFFER.get()
}

/// Whether unit tests segment GSO batches in place of the system.
#[cfg(windows)]
static SEGMENTS: AtomicBool = AtomicBool::new(false);

#[cfg(windows)]
pub(super) fn segments() -> bool {
    SEGMENTS.load(Ordering::Relaxed)
}

/// Has GSO batches segmented, for the whole process, where the system may lack that. Linux has it.
#[cfg_attr(fuzzing, allow(dead_code))] // The model has a kernel of its own.
pub(crate) fn segment_batches() {
    #[cfg(windows)]
    SEGMENTS.store(true, Ordering::Relaxed);
}

/// Asked by a call before it is made with `len` messages: how many it may offer the kernel, or
/// the error it is to give.
pub(super) fn next(call: Call, len: usize) -> io::Result<usize> {
    assert!(len > 0, "{call:?} of no messages: FreeBSD's recvmmsg receives one even then");
    let scripted = SCRIPT.try_with(|script| {
        let mut script = script.borrow_mut();
        let fate = match &mut script.decide {
            Some(decide) => decide(call, len),
            None => {
                let at = script.fates.iter().position(|(scripted, _)| *scripted == call);
                let scripted = at.and_then(|at| script.fates.remove(at));
                let fate = scripted.map_or(Fate::Kernel, |(_, fate)| fate);
                script.log.push(LoggedCall { call, offered: len, fate });
                fate
            }
        };
        match fate {
            Fate::Kernel => Ok(len),
            Fate::AtMost(max) => {
                let many = matches!(call, Call::RecvMmsg | Call::SendMmsg);
                assert!(many, "{call:?} moves one message or none");
                Ok(len.min(max))
            }
            Fate::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    });
    // A thread that ends has no script.
    scripted.unwrap_or(Ok(len))
}

//! Scripted results of system calls, for tests of errors that a test cannot make the kernel return.
//!
//! Each thread has its own script and log. A call takes the next entry for its kind, or goes to the kernel if there is
//! no entry. A test that models the kernel decides about each call by a function instead ([`decide_by`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem;
#[cfg(all(test, unix))]
use std::net::SocketAddr;
#[cfg(windows)]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(test)]
use super::numbers::V4Rules;

/// The system's error numbers, by their Unix names.
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
    // Windows lacks these. WSAEOPNOTSUPP means the same to the library as EIO, and WSAEDISCON means nothing to it, like EPIPE.
    pub(crate) use windows_sys::Win32::Networking::WinSock::WSAEDISCON as EPIPE;
    pub(crate) use windows_sys::Win32::Networking::WinSock::WSAEOPNOTSUPP as EIO;
}

/// A kind of system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    RecvMmsg,
    SendMmsg,
    RecvMsg,
    SendMsg,
    /// The test call that asks whether the multi-message calls are permitted.
    Permitted,
    /// The test call that asks whether a message fails by itself.
    Probe,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The kernel decides.
    Kernel,
    /// The kernel gets at most this many of the messages. For the multi-message calls only.
    AtMost(usize),
    /// The call fails with this error number, and does not reach the kernel.
    Fail(i32),
}

/// A call that the library made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedCall {
    pub(crate) call: Call,
    /// Messages that the library offered.
    pub(crate) offered: usize,
    /// The script's entry, or `Kernel`.
    pub(crate) fate: Fate,
}

/// Decides about a call from its kind and the number of messages that the library offers.
type Decide = Box<dyn FnMut(Call, usize) -> Fate>;

#[derive(Default)]
struct Script {
    fates: VecDeque<(Call, Fate)>,
    decide: Option<Decide>,
    log: Vec<LoggedCall>,
}

thread_local!(static SCRIPT: RefCell<Script> = RefCell::default());

/// Scripts the next calls on this thread, each kind in the order given, and clears the log.
pub(crate) fn script(fates: impl IntoIterator<Item = (Call, Fate)>) {
    SCRIPT.with_borrow_mut(|script| {
        script.fates = fates.into_iter().collect();
        script.decide = None;
        script.log.clear();
    });
}

/// Lets `decide` decide about every call on this thread until the next [`script`]. Nothing is logged. `decide` may panic to
/// stop an endless loop.
#[cfg_attr(not(mmsg_calls), allow(dead_code))] // Only the model of Linux uses it.
pub(crate) fn decide_by(decide: impl FnMut(Call, usize) -> Fate + 'static) {
    script([]);
    SCRIPT.with_borrow_mut(|script| script.decide = Some(Box::new(decide)));
}

/// The calls made on this thread since the last [`script`] or `log`. The script goes on.
pub(crate) fn log() -> Vec<LoggedCall> {
    SCRIPT.with_borrow_mut(|script| mem::take(&mut script.log))
}

/// Ends the script and returns the log. Panics if a scripted call was never made.
pub(crate) fn finish() -> Vec<LoggedCall> {
    let left = SCRIPT.with_borrow_mut(|script| mem::take(&mut script.fates));
    assert!(left.is_empty(), "scripted calls that were never made: {left:?}");
    log()
}

thread_local!(static WITHOUT_MMSG: Cell<Option<bool>> = const { Cell::new(None) });

/// Whether the multi-message calls are off on this thread. `None` if the thread has not chosen.
pub(super) fn without_mmsg() -> Option<bool> {
    WITHOUT_MMSG.get()
}

pub(super) fn set_without_mmsg(on: bool) {
    WITHOUT_MMSG.set(Some(on));
}

thread_local!(static RELEASE: Cell<Option<&'static str>> = const { Cell::new(None) });

/// Sets the kernel's release on this thread. `None` means the running kernel's.
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

/// Makes sends on this thread treat control data as macOS does, with a send buffer of `bytes`.
#[cfg(all(test, unix))]
pub(crate) fn set_send_buffer(bytes: Option<usize>) {
    SEND_BUFFER.set(bytes);
}

/// The send buffer that was set on this thread.
#[cfg(unix)]
pub(crate) fn send_buffer() -> Option<usize> {
    SEND_BUFFER.get()
}

#[cfg(test)]
thread_local!(static V4_RULES: Cell<Option<V4Rules>> = const { Cell::new(None) });

/// Makes this thread's calls follow another system's rules. `None` means this one's. Where IPv6 sockets take no IPv4 options,
/// setting one fails.
#[cfg(test)]
#[cfg_attr(not(linux_like), allow(dead_code))] // The tests of the rules run on Linux.
pub(crate) fn set_v4_rules(rules: Option<V4Rules>) {
    V4_RULES.set(rules);
}

/// The rules that were set on this thread.
#[cfg(test)]
pub(crate) fn v4_rules() -> Option<V4Rules> {
    V4_RULES.get()
}

#[cfg(all(test, unix))]
thread_local!(static IS_OTHER_UNIX: Cell<bool> = const { Cell::new(false) });

/// Makes the library expect of this thread's sockets what other kernels than Linux do.
#[cfg(all(test, unix))]
pub(crate) fn set_other_unix(on: bool) {
    IS_OTHER_UNIX.set(on);
}

/// Whether it does.
#[cfg(all(test, unix))]
pub(super) fn is_other_unix() -> bool {
    IS_OTHER_UNIX.get()
}

#[cfg(test)]
thread_local!(static QUESTIONS: Cell<usize> = const { Cell::new(0) });

/// Counts a question for the socket's address.
#[cfg(test)]
pub(super) fn count_question() {
    QUESTIONS.set(QUESTIONS.get() + 1);
}

/// How often this thread asked for a socket's address since the last call of this.
#[cfg(test)]
#[cfg_attr(not(linux_like), allow(dead_code))] // The tests of the rules run on Linux.
pub(crate) fn questions() -> usize {
    QUESTIONS.take()
}

#[cfg(all(test, unix))]
thread_local!(static OPTIONS_READ: Cell<usize> = const { Cell::new(0) });

/// Counts a socket option that is read.
#[cfg(all(test, unix))]
pub(super) fn count_option() {
    OPTIONS_READ.set(OPTIONS_READ.get() + 1);
}

/// How many socket options this thread has read since the last call of this.
#[cfg(all(test, linux_like))]
pub(crate) fn options_read() -> usize {
    OPTIONS_READ.take()
}

/// Decides about a message from its destination and its control data: the error number of its send, or none.
#[cfg(all(test, unix))]
pub(crate) type Judge = Box<dyn FnMut(Option<SocketAddr>, &[u8]) -> Option<i32>>;

#[cfg(all(test, unix))]
thread_local!(static JUDGE: RefCell<Option<Judge>> = const { RefCell::new(None) });

/// Lets `judge` see each message that this thread's sends pass to the kernel.
#[cfg(all(test, unix))]
#[cfg_attr(not(linux_like), allow(dead_code))] // The tests of the rules run on Linux.
pub(crate) fn judge_sends(judge: Option<Judge>) {
    JUDGE.set(judge);
}

/// What the thread's judge says of a message.
#[cfg(all(test, unix))]
pub(super) fn judged(dest: Option<SocketAddr>, control: &[u8]) -> Option<i32> {
    // A thread that ends has no judge.
    JUDGE.try_with(|judge| judge.borrow_mut().as_mut()?(dest, control)).ok().flatten()
}

/// Whether unit tests segment GSO batches in place of the system.
#[cfg(windows)]
static SEGMENTS: AtomicBool = AtomicBool::new(false);

#[cfg(windows)]
pub(super) fn segments() -> bool {
    SEGMENTS.load(Ordering::Relaxed)
}

/// Lets unit tests segment GSO batches on Windows, for the whole process: Wine cannot. Linux needs no help.
#[cfg_attr(fuzzing, allow(dead_code))] // The model has a kernel of its own.
pub(crate) fn segment_batches() {
    #[cfg(windows)]
    SEGMENTS.store(true, Ordering::Relaxed);
}

/// Decides about a call of `len` messages before it is made: how many to offer the kernel, or the error to return.
pub(super) fn next(call: Call, len: usize) -> io::Result<usize> {
    assert!(len > 0, "{call:?} of no messages, by which FreeBSD's recvmmsg would receive one");
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
                assert!(many, "{call:?} moves one message, so `AtMost` means nothing");
                Ok(len.min(max))
            }
            Fate::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    });
    // A thread that ends has no script.
    scripted.unwrap_or(Ok(len))
}

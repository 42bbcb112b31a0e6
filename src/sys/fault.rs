//! A script of system call results, for tests of the paths that a kernel takes when it pleases.
//!
//! Each thread has its own script and its own log. A call takes the next entry, if there is one
//! for its kind; without one it goes to the kernel as ever.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

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
    /// The kernel gets no more than this many of the messages.
    AtMost(usize),
    /// It fails with this error number, and the kernel sees nothing of it.
    Fail(i32),
}

#[derive(Default)]
struct Script {
    fates: VecDeque<(Call, Fate)>,
    log: Vec<(Call, usize)>,
}

thread_local!(static SCRIPT: RefCell<Script> = RefCell::default());

/// Scripts the calls to come on this thread, each kind in the order given, and empties the log.
pub(crate) fn script(fates: impl IntoIterator<Item = (Call, Fate)>) {
    SCRIPT.with_borrow_mut(|script| {
        script.fates = fates.into_iter().collect();
        script.log.clear();
    });
}

/// The calls made on this thread since the last [`script`], with the messages offered to each;
/// fails the test if a scripted one never came.
pub(crate) fn finish() -> Vec<(Call, usize)> {
    SCRIPT.with_borrow_mut(|script| {
        assert!(script.fates.is_empty(), "calls that never came: {:?}", script.fates);
        std::mem::take(&mut script.log)
    })
}

/// Asked by a call before it is made with `len` messages: how many it may offer the kernel, or
/// the error it is to give.
pub(super) fn next(call: Call, len: usize) -> io::Result<usize> {
    SCRIPT.with_borrow_mut(|script| {
        script.log.push((call, len));
        let Some(at) = script.fates.iter().position(|(scripted, _)| *scripted == call) else {
            return Ok(len);
        };
        match script.fates.remove(at).map(|(_, fate)| fate) {
            Some(Fate::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fate::AtMost(most)) => Ok(len.min(most)),
            Some(Fate::Kernel) | None => Ok(len),
        }
    })
}

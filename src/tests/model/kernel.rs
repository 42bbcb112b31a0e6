//! The model's kernel: it decides about each offered header as the real one would, and logs its answer to each call.
//!
//! A multi-message call ends before the first header that fails. `sendmmsg` then hides the error, and `recvmmsg` keeps it
//! for the socket's next call (do_recvmmsg in net/socket.c).

use std::collections::VecDeque;

use crate::sys::fault::{Call, Fate, errno};

/// What happens to the next header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFate {
    /// It goes through.
    Pass,
    /// It fails. If the error `stays`, the message fails each time it is offered.
    Fail { errno: i32, stays: bool },
    /// The multi-message call ends before it, without an error.
    Short,
    /// There are no multi-message calls (`ENOSYS`).
    Missing,
    /// A sandbox forbids the multi-message calls (`EPERM`).
    Forbidden,
}

pub(super) const fn fail(errno: i32) -> HeaderFate {
    HeaderFate::Fail { errno, stays: false }
}

pub(super) const fn stays(errno: i32) -> HeaderFate {
    HeaderFate::Fail { errno, stays: true }
}

impl HeaderFate {
    /// One of each class that the library distinguishes. An error that stays is the message's own. One that does not is about
    /// another datagram or a GSO batch, or temporary.
    pub(super) const ALL: [Self; 17] = [
        Self::Pass,
        Self::Short,
        Self::Missing,
        Self::Forbidden,
        fail(errno::EINTR),
        fail(errno::EAGAIN),
        fail(errno::ECONNREFUSED),
        fail(errno::EHOSTUNREACH),
        fail(errno::EPERM),
        stays(errno::EPERM),
        fail(errno::EIO),
        stays(errno::EIO),
        fail(errno::EMSGSIZE),
        stays(errno::EMSGSIZE),
        fail(errno::EINVAL),
        fail(errno::ENOBUFS),
        stays(errno::ENOBUFS),
    ];

    /// The fate of a byte, if it has one.
    pub(super) fn of(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// The kernel's answer to one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The real kernel got all offered headers.
    Passed,
    /// The real kernel got only some of the offered headers.
    Short,
    /// An error for the caller.
    Failed(i32),
    /// The multi-message calls are missing.
    CallsMissing,
    Interrupted,
    /// The test call that asks whether the multi-message calls are permitted.
    Asked,
}

/// Whether a call may end with a count after these answers.
pub(super) fn ends_call(log: &[Answer]) -> bool {
    log.iter().any(|answer| matches!(answer, Answer::Failed(_) | Answer::Short))
        || log.last() == Some(&Answer::Interrupted)
}

#[derive(Default)]
pub(super) struct Kernel {
    pub(super) fates: VecDeque<HeaderFate>,
    /// The error that stays with the first unsent message.
    head: Option<i32>,
    /// An error that a receive met after messages. The next receive returns it.
    pub(super) deferred: Option<i32>,
    /// Messages that wait to be received.
    pub(super) waiting: usize,
    forbidden: bool,
    /// The maximum number of system calls for the library's current call.
    bound: usize,
    log: Vec<Answer>,
}

impl Kernel {
    /// Begins a call of the library that moves up to `datagrams`.
    pub(super) fn begin(&mut self, datagrams: usize) {
        // A fate may cost repeated calls after an unrelated ICMP error, the same again for the datagrams of a GSO batch, and
        // the test call for permission.
        const PER_FATE: usize = 12;
        self.bound = 8 + 4 * datagrams + PER_FATE * self.fates.len();
        self.log.clear();
    }

    /// The answers since [`begin`](Self::begin).
    pub(super) fn answers(&self) -> Vec<Answer> {
        self.log.clone()
    }

    /// The caller has got the error, and skips the first unsent message.
    pub(super) fn give_up(&mut self) {
        self.head = None;
    }

    pub(super) fn decide(&mut self, call: Call, offered: usize) -> Fate {
        assert!(self.log.len() < self.bound, "the call does not end: {:?}", self.log);
        let (fate, answer) = match call {
            Call::Permitted if std::mem::take(&mut self.forbidden) => {
                (Fate::Fail(errno::EPERM), Answer::Asked)
            }
            Call::Permitted => (Fate::Kernel, Answer::Asked),
            Call::Probe => (self.head.map_or(Fate::Kernel, Fate::Fail), Answer::Asked),
            Call::RecvMmsg | Call::RecvMsg => self.receive(call == Call::RecvMmsg, offered),
            Call::SendMmsg | Call::SendMsg => self.send(call == Call::SendMmsg, offered),
        };
        self.log.push(answer);
        fate
    }

    fn receive(&mut self, many: bool, offered: usize) -> (Fate, Answer) {
        if let Some(errno) = self.deferred.take() {
            return failed(errno);
        }
        // If nothing waits, the first fate may still be an error. Otherwise the real kernel returns `EAGAIN`.
        let (count, stop) = self.headers(many, offered.min(self.waiting.max(1)));
        self.waiting = self.waiting.saturating_sub(count);
        if let (Some(HeaderFate::Fail { errno, .. }), 1..) = (stop, count) {
            let transient = [errno::EINTR, errno::EAGAIN].contains(&errno);
            self.deferred = (!transient).then_some(errno);
        }
        self.answer(count, stop)
    }

    fn send(&mut self, many: bool, offered: usize) -> (Fate, Answer) {
        if let Some(errno) = self.head {
            return failed(errno);
        }
        let (count, stop) = self.headers(many, offered);
        if let Some(HeaderFate::Fail { errno, stays: true }) = stop {
            self.head = Some(errno);
        }
        self.answer(count, stop)
    }

    /// How many of up to `max` headers go through, and the fate of the one that does not.
    fn headers(&mut self, many: bool, max: usize) -> (usize, Option<HeaderFate>) {
        let mut count = 0;
        while count < max {
            match self.fates.pop_front() {
                None => return (max, None),
                Some(HeaderFate::Pass) => count += 1,
                // These concern only multi-message calls, and the last two only their first header.
                Some(HeaderFate::Short) if !many || count == 0 => {}
                Some(HeaderFate::Missing | HeaderFate::Forbidden) if !many || count > 0 => {}
                stop => return (count, stop),
            }
        }
        (max, None)
    }

    /// The answer to a call of which `count` headers go through.
    fn answer(&mut self, count: usize, stop: Option<HeaderFate>) -> (Fate, Answer) {
        match stop {
            None => (Fate::Kernel, Answer::Passed),
            Some(_) if count > 0 => (Fate::AtMost(count), Answer::Short),
            Some(HeaderFate::Fail { errno: errno::EINTR, .. }) => {
                (Fate::Fail(errno::EINTR), Answer::Interrupted)
            }
            Some(HeaderFate::Fail { errno, .. }) => failed(errno),
            Some(HeaderFate::Missing) => (Fate::Fail(errno::ENOSYS), Answer::CallsMissing),
            Some(HeaderFate::Forbidden) => {
                self.forbidden = true;
                (Fate::Fail(errno::EPERM), Answer::CallsMissing)
            }
            Some(HeaderFate::Pass | HeaderFate::Short) => {
                unreachable!("they let a first header through")
            }
        }
    }
}

fn failed(errno: i32) -> (Fate, Answer) {
    (Fate::Fail(errno), Answer::Failed(errno))
}

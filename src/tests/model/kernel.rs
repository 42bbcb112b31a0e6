//! The model's kernel: it answers for each header that is offered, as the real one would, and logs its answers.
//!
//! A multi-message call ends before the first header that does not go through. `sendmmsg` then
//! hides the error; `recvmmsg` keeps it for the socket's next call (do_recvmmsg in net/socket.c).

use std::collections::VecDeque;

use crate::sys::fault::{Call, Fate, errno};

/// The answer to the next header of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It goes through.
    Pass,
    /// It fails. An error that `stays` meets that message however often it is offered.
    Fail { errno: i32, stays: bool },
    /// The multi-message call ends before it, without an error.
    Short,
    /// There are no multi-message calls (`ENOSYS`).
    Missing,
    /// A sandbox forbids the multi-message calls (`EPERM`).
    Forbidden,
}

/// The kernel's answer to one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was left to the real kernel, with all that was offered.
    Passed,
    /// The real kernel was given fewer headers than were offered.
    Short,
    /// The caller's error.
    Failed(i32),
    /// An error about the call, not about a message.
    NotTheCall,
    Interrupted,
    /// The question whether multi-message calls are permitted.
    Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Receive,
    Send,
}

#[derive(Default)]
pub(super) struct Kernel {
    sends: VecDeque<Event>,
    receives: VecDeque<Event>,
    /// The error that stays with the message at the head of the line.
    head: Option<i32>,
    /// Errors that a receive met after messages; that socket's next receive returns them.
    deferred: [Option<i32>; 2],
    /// The socket that the calls are on.
    socket: usize,
    /// Messages that wait in that socket.
    waiting: usize,
    forbidden: bool,
    calls: usize,
    /// The system calls that the present call of the library may come to.
    bound: usize,
    log: Vec<Answer>,
}

/// System calls that one event can cost: a try for each report of an unrelated ICMP error, then the
/// same for each datagram of a GSO batch, and the question whether the calls are permitted.
const PER_EVENT: usize = 12;

impl Kernel {
    pub(super) fn script(&mut self, direction: Direction, events: impl Iterator<Item = Event>) {
        self.events(direction).extend(events);
    }

    fn events(&mut self, direction: Direction) -> &mut VecDeque<Event> {
        match direction {
            Direction::Receive => &mut self.receives,
            Direction::Send => &mut self.sends,
        }
    }

    /// Scripted events that no header has met yet.
    pub(super) fn left(&self, direction: Direction) -> usize {
        match direction {
            Direction::Receive => self.receives.len(),
            Direction::Send => self.sends.len(),
        }
    }

    /// Begins a call of the library on `socket`, in which `waiting` messages wait, that moves up to
    /// `datagrams`.
    pub(super) fn begin(&mut self, socket: usize, waiting: usize, datagrams: usize) {
        (self.socket, self.waiting) = (socket, waiting);
        (self.calls, self.bound) = (0, 8 + 4 * datagrams);
        self.log.clear();
    }

    /// Its answers since then.
    pub(super) fn answers(&self) -> Vec<Answer> {
        self.log.clone()
    }

    /// The caller has got its error, and gives up on the message at the head of the line.
    pub(super) fn give_up(&mut self) {
        self.head = None;
    }

    /// Nothing further is scripted; deferred errors stay.
    pub(super) fn clear(&mut self) {
        self.sends.clear();
        self.receives.clear();
        self.head = None;
    }

    pub(super) fn deferred(&self, socket: usize) -> Option<i32> {
        self.deferred[socket]
    }

    pub(super) fn decide(&mut self, call: Call, offered: usize) -> Fate {
        self.calls += 1;
        let (calls, bound) = (self.calls, self.bound);
        assert!(calls <= bound, "a call that does not end: {calls} system calls, {:?}", self.log);
        let (fate, answer) = match call {
            Call::Permitted if self.forbidden => {
                self.forbidden = false;
                (Fate::Fail(errno::EPERM), Answer::Asked)
            }
            Call::Permitted => (Fate::Kernel, Answer::Asked),
            Call::RecvMmsg | Call::RecvMsg => self.receive(call == Call::RecvMmsg, offered),
            Call::SendMmsg | Call::SendMsg => self.send(call == Call::SendMmsg, offered),
        };
        self.log.push(answer);
        fate
    }

    fn receive(&mut self, many: bool, offered: usize) -> (Fate, Answer) {
        if let Some(errno) = self.deferred[self.socket].take() {
            return failed(errno);
        }
        // With nothing there, the first event may still be an error; else the real kernel says so.
        let most = offered.min(self.waiting.max(1));
        let (count, stop) = self.headers(Direction::Receive, many, most);
        self.waiting = self.waiting.saturating_sub(count);
        match stop {
            None => (Fate::Kernel, Answer::Passed),
            Some(event) if count == 0 => self.first(event),
            Some(event) => {
                if let Event::Fail { errno, .. } = event {
                    self.deferred[self.socket] =
                        Some(errno).filter(|errno| !TRANSIENT.contains(errno));
                }
                (Fate::AtMost(count), Answer::Short)
            }
        }
    }

    fn send(&mut self, many: bool, offered: usize) -> (Fate, Answer) {
        if let Some(errno) = self.head {
            return failed(errno);
        }
        let (count, stop) = self.headers(Direction::Send, many, offered);
        if let Some(Event::Fail { errno, stays: true }) = stop {
            self.head = Some(errno);
        }
        match stop {
            None => (Fate::Kernel, Answer::Passed),
            Some(event) if count == 0 => self.first(event),
            Some(_) => (Fate::AtMost(count), Answer::Short),
        }
    }

    /// The answer of a call whose first header meets this event.
    fn first(&mut self, event: Event) -> (Fate, Answer) {
        match event {
            Event::Pass => (Fate::Kernel, Answer::Passed),
            Event::Fail { errno: errno::EINTR, .. } => {
                (Fate::Fail(errno::EINTR), Answer::Interrupted)
            }
            Event::Fail { errno, .. } => failed(errno),
            Event::Short => (Fate::AtMost(0), Answer::Short),
            Event::Missing => (Fate::Fail(errno::ENOSYS), Answer::NotTheCall),
            Event::Forbidden => {
                self.forbidden = true;
                (Fate::Fail(errno::EPERM), Answer::NotTheCall)
            }
        }
    }

    /// How many of up to `most` headers go through, and what stops the one after them.
    fn headers(&mut self, direction: Direction, many: bool, most: usize) -> (usize, Option<Event>) {
        let mut count = 0;
        while count < most {
            let Some(event) = self.events(direction).pop_front() else { return (most, None) };
            match event {
                Event::Pass => count += 1,
                // These are about multi-message calls, and the last two about whole ones.
                Event::Short if !many => {}
                Event::Missing | Event::Forbidden if !many || count > 0 => {}
                _ => {
                    self.bound += PER_EVENT;
                    return (count, Some(event));
                }
            }
        }
        (most, None)
    }
}

/// Errors that the next system call does not meet again, and that no caller needs.
pub(super) const TRANSIENT: [i32; 2] = [errno::EINTR, errno::EAGAIN];

fn failed(errno: i32) -> (Fate, Answer) {
    (Fate::Fail(errno), Answer::Failed(errno))
}

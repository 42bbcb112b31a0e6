//! What becomes of a GSO batch that the kernel rejects, or is not offered: its datagrams are sent one by one.

use std::io;

use super::{Call, dest, is_connection_refused, is_would_block, may_be_its_own};
use crate::engine::deferred_error;
use crate::events;
use crate::offload::routes::Scope;
use crate::send::coalesce::Limits;
use crate::sys::{
    self, Backend, CallResult, Direction, GsoBatch, Rejection, SendHeaders, Transferred,
};

impl Call<'_> {
    /// Sends the datagrams of a batch that met an error. If the first of them goes, the error was not
    /// about what is in the batch.
    pub(super) fn send_rejected(
        &mut self,
        wired: &mut SendHeaders<'_>,
        at: usize,
        error: &io::Error,
        reported_once: bool,
    ) -> io::Result<()> {
        let Sent { datagrams, errno, result } = self.send_segments(wired, at, 0);
        let theirs = datagrams == 0 && errno == error.raw_os_error();
        match sys::segmentation_rejected(error) {
            Some(rejection) if datagrams > 0 => {
                self.note_rejection(rejection, error, wired, at);
            }
            None if reported_once && !theirs => {
                deferred_error::defer(self.socket, Direction::Send, error);
            }
            _ => {}
        }
        result
    }

    fn note_rejection(
        &mut self,
        rejection: Rejection,
        error: &io::Error,
        wired: &SendHeaders<'_>,
        at: usize,
    ) {
        let segment = wired.batch(at).segment;
        self.offload.counters.rejected(rejection);
        match rejection {
            Rejection::Unsupported => {
                let scope = self.offload.health.reject(dest(wired, at));
                let off_for = if scope == Scope::Socket { "socket" } else { "destination" };
                events::gso_rejected(error, segment, Some(off_for));
                if scope == Scope::Socket {
                    self.offload.counters.socket_rejected();
                    self.limits = Limits::NO_GSO;
                }
            }
            // One flow's segments may be too long for its route, and others' not. What it costs to
            // find out is paid once a call.
            Rejection::Size => {
                events::gso_rejected(error, segment, None);
                self.limits.rejected_len = self.limits.rejected_len.min(segment);
            }
        }
    }

    /// Sends the datagrams of a batch one by one, from number `first` on.
    pub(super) fn send_segments(
        &mut self,
        wired: &mut SendHeaders<'_>,
        at: usize,
        first: usize,
    ) -> Sent {
        let batch = *wired.batch(at);
        if let Err(error) = self.reserve_for_segments(wired, &batch) {
            if first > 0 {
                self.keep_partial(wired, at, first);
            }
            return Sent { datagrams: 0, errno: None, result: self.progress.stop(error) };
        }
        let mut sent = first;
        let step = loop {
            let backend = Backend::current();
            let (offered, step) = wired.send_segments(backend, self.socket, at, sent, self.flags);
            let bytes = batch.offset(sent + step.count) - batch.offset(sent);
            let moved = Transferred { datagrams: step.count, bytes, ..Transferred::default() };
            self.offload.counters.sent(moved, step.calls);
            sent += step.count;
            if !batch.is_callers() {
                // Each datagram counts as a message.
                let errno = errno(&step);
                return Sent { datagrams: sent, errno, result: self.progress.add(offered, step) };
            }
            if sent == batch.datagrams() || step.count == 0 {
                break step;
            }
            match &step.error {
                // About a datagram sent before: it waits for the next call, and the message goes on.
                Some(error) if is_connection_refused(error) => {
                    deferred_error::defer(self.socket, Direction::Send, error);
                }
                // A signal may have ended the wait of a blocking socket.
                Some(error) if is_would_block(error) => {}
                Some(_) => break step,
                // There may be more of them than headers.
                None => {}
            }
        };
        let count = usize::from(sent == batch.datagrams());
        if count == 0 && sent > 0 && self.leaves_to_caller(&step) {
            self.keep_partial(wired, at, sent);
        }
        let errno = errno(&step);
        let result = self.progress.add(1, CallResult { count, ..step });
        Sent { datagrams: sent - first, errno, result }
    }

    /// Reserves the memory for sending a batch's datagrams, before the first of them leaves.
    fn reserve_for_segments(
        &self,
        wired: &mut SendHeaders<'_>,
        batch: &GsoBatch,
    ) -> io::Result<()> {
        if batch.is_callers() {
            self.offload.partial.reserve()?;
        }
        wired.reserve_segments()
    }

    /// Notes that `sent` datagrams of a message with a segment size have left.
    fn keep_partial(&self, wired: &SendHeaders<'_>, at: usize, sent: usize) {
        let segment = wired.batch(at).segment;
        self.offload.partial.keep(self.socket, segment, &wired.memory(at), sent);
    }

    /// Whether a message that was not completed is still the caller's to send. Otherwise the error is
    /// returned for it: that is its outcome, and a message like it is another one.
    fn leaves_to_caller(&self, step: &CallResult) -> bool {
        self.progress.count > 0 || !step.error.as_ref().is_some_and(may_be_its_own)
    }
}

/// What became of a batch whose datagrams were sent one by one.
pub(super) struct Sent {
    /// Datagrams that have left.
    datagrams: usize,
    /// The number of the error that stopped them.
    errno: Option<i32>,
    /// Of the whole call.
    pub(super) result: io::Result<()>,
}

fn errno(step: &CallResult) -> Option<i32> {
    step.error.as_ref().and_then(io::Error::raw_os_error)
}

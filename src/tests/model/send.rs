//! Sends, in every way there is.

use std::sync::Arc;

use super::judge::{Context, Said, errno};
use super::messages::{Msg, lend, make};
use super::ops::{Batch, Sending, Shape};
use super::world::{End, World, under};
use crate::tests::addr;
use crate::{BatchSocketExt, MmsgBuf, SendQueue};

impl World {
    /// Sends a batch, and the rest of it again as often as the operation asks.
    pub(super) fn send(
        &mut self,
        socket: usize,
        clone: usize,
        way: Sending,
        msgs: &[Msg],
        again: bool,
        thread: bool,
    ) {
        let mut left = msgs;
        for tries in 0.. {
            assert!(tries < 400 + 2 * msgs.len(), "no call gets on with {left:?}");
            let clone = self.pick_to_send(socket, clone);
            let said = self.send_once(socket, clone, way, left, thread);
            let handled = self.judge(socket, clone, left, &said);
            left = &left[handled..];
            // A partly sent message is offered again until it has an outcome.
            if left.is_empty() || !(again || self.sockets[socket].partial.is_some()) {
                break;
            }
        }
        self.kernel().give_up();
    }

    fn pick_to_send(&self, socket: usize, clone: usize) -> usize {
        let served = &self.sockets[socket];
        let partial = served.partial.as_ref().map(|partial| partial.clone);
        partial.unwrap_or_else(|| served.pick(clone, &served.owed_sends))
    }

    fn send_once(
        &mut self,
        socket: usize,
        clone: usize,
        way: Sending,
        msgs: &[Msg],
        thread: bool,
    ) -> (Said, Context) {
        let to = self.far.each_ref().map(addr);
        let kernel = Arc::clone(&self.kernel);
        let end = &self.sockets[socket].clone(clone).end;
        let (gso, not_offered) = (end.gso(), end.not_offered());
        let datagrams = msgs.iter().map(|msg| msg.datagrams().len()).sum();
        let (said, log) =
            under(&self.kernel, &mut self.backend, thread, (socket, 0, datagrams), || {
                lend(msgs, &to, |sends| {
                    let mut failed = Vec::new();
                    let batch_socket = end.batch_socket();
                    let result = match (way, end) {
                        (Sending::Arena(backend), End::Plain(socket)) => {
                            MmsgBuf::with_backend(backend).send(socket, sends)
                        }
                        (Sending::Batch | Sending::Arena(_), End::Offload(socket)) => {
                            crate::BatchSocket::send_batch(&**socket, sends)
                        }
                        (Sending::Batch, End::Plain(socket)) => {
                            crate::BatchSocket::send_batch(socket, sends)
                        }
                        (Sending::Dyn, _) => batch_socket.send_batch(sends),
                        (Sending::Iter, _) => batch_socket.send_iter(sends),
                        (Sending::Each, _) => batch_socket.send_each(sends, |i, error| {
                            // The script borrows the kernel only while it decides.
                            kernel.lock().expect("no panic so far").give_up();
                            failed.push((i, errno(&error)));
                        }),
                        (Sending::Flush, _) => {
                            let mut queue = SendQueue::new(1 << 20);
                            sends.iter().for_each(|msg| queue.push(msg).expect("it is ample"));
                            let result = batch_socket.flush(&mut queue);
                            let sent = *result.as_ref().unwrap_or(&0);
                            assert_eq!(queue.len(), sends.len() - sent);
                            result
                        }
                    };
                    Said { result, failed }
                })
            });
        let offered = end.not_offered() == not_offered;
        (said, Context { log, gso, offered, each: way == Sending::Each })
    }

    /// Sends what is in the queue.
    pub(super) fn flush(&mut self, socket: usize, clone: usize, thread: bool) {
        loop {
            let clone = self.pick_to_send(socket, clone);
            let msgs = std::mem::take(&mut self.queued);
            let datagrams = msgs.iter().map(|msg| msg.datagrams().len()).sum();
            let (queue, end) = (&mut self.queue, &self.sockets[socket].clone(clone).end);
            let (gso, not_offered) = (end.gso(), end.not_offered());
            let what = (socket, 0, datagrams);
            let (result, log) = under(&self.kernel, &mut self.backend, thread, what, || {
                end.batch_socket().flush(queue)
            });
            let sent = *result.as_ref().unwrap_or(&0);
            let offered = end.not_offered() == not_offered;
            let said = Said { result, failed: Vec::new() };
            let context = Context { log, gso, offered, each: false };
            let handled = self.judge(socket, clone, &msgs, &(said, context));
            if handled > sent {
                // The front one failed, and is given up.
                assert!(self.queue.discard_front());
            }
            self.queued = msgs[handled..].to_vec();
            self.compare_queue();
            if self.sockets[socket].partial.is_none() {
                break;
            }
        }
        self.kernel().give_up();
    }

    pub(super) fn push(&mut self, msg: Msg) {
        let to = self.far.each_ref().map(addr);
        let before = self.queue.bytes();
        let pushed = lend(std::slice::from_ref(&msg), &to, |sends| self.queue.push(&sends[0]));
        if pushed.is_ok() {
            self.queued.push(msg);
        } else {
            assert_eq!(self.queue.bytes(), before, "a rejected push changes nothing");
        }
        self.compare_queue();
    }

    /// The queue holds what the model has in its.
    pub(super) fn compare_queue(&self) {
        let payload = |msg: crate::SendMsg<'_>| msg.slices().collect::<Vec<_>>().concat();
        assert_eq!(self.queue.len(), self.queued.len());
        assert!(self.queue.iter().map(payload).eq(self.queued.iter().map(|msg| msg.data.clone())));
        let least: usize = self.queued.iter().map(|msg| msg.data.len() + SendQueue::OVERHEAD).sum();
        assert!(self.queue.bytes() >= least && (least > 0 || self.queue.bytes() == 0));
    }

    /// Further sends return the deferred errors.
    pub(super) fn finish_sends(&mut self, socket: usize) {
        for _ in 0..=self.sockets[socket].owed_sends.len() {
            let batch = Batch { count: 1, shape: Shape::Alike, seed: 0 };
            let msgs = make(batch, &mut self.next, false);
            self.send(socket, 0, Sending::Batch, &msgs, false, false);
        }
        assert!(self.sockets[socket].owed_sends.is_empty(), "a deferred error is lost");
    }
}

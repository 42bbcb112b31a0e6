//! A batch filled by an implementation of `BatchSocket` other than the kernel's, which receives into
//! borrowed messages.

use std::array;
use std::io;
use std::ptr;

use super::contents::Contents;
use crate::ancillary::RecvMeta;
use crate::recv::msg::RecvMsg;
use crate::sys::{OwnedSocket, RecvResult, UnixAddrBuf};

impl Contents {
    /// Fills the first slots by a receive into borrowed messages.
    pub(super) fn recv_by(
        &mut self,
        recv: impl FnOnce(&mut [RecvMsg<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        const MOST: usize = 32;
        self.clear();
        let most = self.metas.len().min(MOST);
        let accepts_fds = self.slots.accepts_fds();
        let mut fds: [Vec<OwnedSocket>; MOST] = array::from_fn(|_| Vec::new());
        let mut sources: [UnixAddrBuf; MOST] = array::from_fn(|_| UnixAddrBuf::new());
        let mut starts = [ptr::null(); MOST];
        let mut each = self.slots.buffers().zip(&mut fds).zip(&mut sources).enumerate();
        let mut msgs: [_; MOST] = array::from_fn(|_| {
            let Some((i, ((buffer, fds), source))) = each.next() else {
                return RecvMsg::new(&mut []);
            };
            starts[i] = buffer.as_ptr();
            let msg = RecvMsg::new(buffer).with_unix_addr(source);
            if accepts_fds { msg.with_fds(fds) } else { msg }
        });
        let count = recv(&mut msgs[..most])?.min(most);
        // The implementation may have reordered the messages, or exchanged their memory.
        let slot_of = |msg: &RecvMsg<'_>| starts[..most].iter().position(|at| *at == msg.start());
        let known = array::from_fn(|i| (slot_of(&msgs[i]), msgs[i].known()));
        drop((each, msgs));
        self.fill(count, known, &sources, &mut fds);
        self.len = count;
        Ok(count)
    }

    /// Takes over messages that were received elsewhere: each with the slot that has its payload, if one
    /// has. Sources and descriptors are those of the slots.
    fn fill<const N: usize>(
        &mut self,
        count: usize,
        known: [(Option<usize>, (RecvResult, RecvMeta)); N],
        sources: &[UnixAddrBuf; N],
        fds: &mut [Vec<OwnedSocket>; N],
    ) {
        const NO_SOURCE: UnixAddrBuf = UnixAddrBuf::new();
        // Where the payload is that was received into each slot.
        let mut payload_of: [usize; N] = array::from_fn(|slot| slot);
        for (i, (slot, (mut result, meta))) in known.into_iter().take(count).enumerate() {
            match slot {
                Some(slot) => {
                    let at = payload_of[slot];
                    self.slots.swap_payload(i, at);
                    // What was in slot `i` is now where this message's payload was.
                    if let Some(other) = payload_of.iter().position(|at| *at == i) {
                        payload_of[other] = at;
                    }
                    payload_of[slot] = i;
                }
                None => (result.len, result.truncated) = (0, true),
            }
            self.slots.fill(i, result, slot.map_or(&NO_SOURCE, |slot| &sources[slot]));
            self.metas[i] = meta;
            let fds = slot.map(|slot| &mut fds[slot]);
            self.slots.add_fds(i, fds.into_iter().flat_map(|fds| fds.drain(..)));
        }
        self.filled = true;
    }
}

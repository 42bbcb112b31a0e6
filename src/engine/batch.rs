//! The receive into a [`RecvBatch`], by as many system calls as it takes.

use std::io;

use crate::engine::progress::Progress;
use crate::recv::batch::RecvBatch;
use crate::sys::{BorrowedSocket, Direction, MAX_BATCH, RecvFlags};

/// Receives into all slots of a batch, from the first on.
#[inline]
pub(crate) fn recv(
    batch: &mut RecvBatch,
    socket: BorrowedSocket<'_>,
    flags: RecvFlags,
) -> io::Result<usize> {
    batch.clear();
    batch.set_received(0, 0);
    let most = flags.most(batch.slots());
    let mut progress = Progress::begin(socket, Direction::Receive, most)?;
    while progress.goes_on() {
        let range = progress.count..most.min(progress.count + MAX_BATCH);
        let (offered, flags) = (range.len(), progress.flags(flags));
        let added = progress.add(offered, batch.recv_step(socket, range, flags));
        // An error of the first call leaves the batch empty.
        batch.set_received(progress.count, progress.calls);
        added?;
    }
    Ok(progress.count)
}

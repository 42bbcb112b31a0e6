//! The receive into a [`RecvBatch`], by as many system calls as it takes.

use std::io;

use crate::engine::progress::Progress;
use crate::recv::batch::RecvBatch;
use crate::sys::{BorrowedSocket, Direction, MAX_BATCH, RecvFlags};

/// Receives into all slots of a batch, from the first on.
///
/// One system call can fill most batches: they are received without a loop, whose variables take 50
/// instructions more.
#[inline]
pub(crate) fn recv(
    batch: &mut RecvBatch,
    socket: BorrowedSocket<'_>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let most = batch.most(socket, flags);
    if most > MAX_BATCH {
        return recv_in_steps(batch, socket, flags, most);
    }
    batch.clear();
    let mut progress = Progress::begin(socket, Direction::Receive, most)?;
    progress.add(most, batch.recv_step(socket, 0..most, flags))?;
    Ok(progress.count)
}

/// Receives into more slots than one system call can fill.
#[cold]
fn recv_in_steps(
    batch: &mut RecvBatch,
    socket: BorrowedSocket<'_>,
    flags: RecvFlags,
    most: usize,
) -> io::Result<usize> {
    batch.clear();
    let mut progress = Progress::begin(socket, Direction::Receive, most)?;
    while progress.goes_on() {
        let range = progress.count..most.min(progress.count + MAX_BATCH);
        let (offered, flags) = (range.len(), progress.flags(flags));
        progress.add(offered, batch.recv_step(socket, range, flags))?;
    }
    Ok(progress.count)
}

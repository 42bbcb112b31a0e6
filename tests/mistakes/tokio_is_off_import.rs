//! The trait for tokio's sockets without the feature `tokio`.

use mmsg::AsyncBatchSocket;

pub fn serve(_socket: impl AsyncBatchSocket) {}

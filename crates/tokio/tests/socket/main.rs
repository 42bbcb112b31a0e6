//! The socket beside tokio's own, its waits, its queue, and its life.

#[path = "../../../../tests/common/mod.rs"]
mod common;
#[path = "../../../../tests/common/counting.rs"]
mod counting;
mod kit;
mod life;
mod receives;
mod sends;
mod twin;

/// `common` needs this constant. No test here depends on the backend.
const BACKEND: Option<mmsg::Backend> = None;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

//! How to choose, to size and to react.
//!
//! - [`cookbook`]: a recipe for each kind of program
//! - [`choosing`]: which type for which program
//! - [`batches`]: how many messages to offer, and how long a slot is
//! - [`memory`]: what is allocated, when, and how to free it; where a buffer should begin
//! - [`cores`]: a socket for each core, or several threads behind one
//! - [`back_pressure`]: when the socket accepts no more
//! - [`vpn`]: what a WireGuard node gains, and what limits it
//! - [`metadata`]: what can be received and set with a message, by platform
//! - [`real_networks`]: settings for real networks, and figures to look at
//! - [`kernels`]: what each Linux release has, and which ones the tests ran on
//! - `tokio`, with the feature `tokio`: calls without waiting, hand-written futures, errors
//! - [`errors`]: what errors mean and what to do
//! - [`migration`]: from std, tokio, nix, quinn and quinn-udp
//! - [`porting`]: under a protocol library with a socket trait of its own
//!
//! These modules contain text only.

#[doc = include_str!("../docs/guide/cookbook.md")]
pub mod cookbook {}

#[doc = include_str!("../docs/guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("../docs/guide/batches.md")]
pub mod batches {}

#[doc = include_str!("../docs/guide/memory.md")]
pub mod memory {}

#[doc = include_str!("../docs/guide/cores.md")]
pub mod cores {}

#[doc = include_str!("../docs/guide/back_pressure.md")]
pub mod back_pressure {}

#[doc = include_str!("../docs/guide/vpn.md")]
pub mod vpn {}

#[doc = include_str!("../docs/guide/metadata.md")]
pub mod metadata {}

#[doc = include_str!("../docs/guide/real_networks.md")]
pub mod real_networks {}

#[doc = include_str!("../docs/guide/kernels.md")]
pub mod kernels {}

#[cfg(feature = "tokio")]
#[doc = include_str!("../docs/guide/tokio.md")]
pub mod tokio {}

#[doc = include_str!("../docs/guide/errors.md")]
pub mod errors {}

#[doc = include_str!("../docs/guide/migration.md")]
pub mod migration {}

#[doc = include_str!("../docs/guide/porting.md")]
pub mod porting {}

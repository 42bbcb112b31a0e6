//! The guide: how to choose, to size and to react. These modules contain text only.
//!
//! Begin with the [`cookbook`], which has a recipe for each kind of program, or with [`migration`] if the program exists.
//! The page `tokio` needs the feature `tokio`.

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

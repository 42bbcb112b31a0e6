//! The guide. These modules contain text only.
//!
//! Begin with the [`cookbook`], which has a recipe for each kind of program, or with [`porting`] if the program exists.
//! The page `tokio` needs the feature `tokio`.

#[doc = include_str!("guide/cookbook.md")]
pub mod cookbook {}

#[doc = include_str!("guide/choosing.md")]
pub mod choosing {}

#[cfg(feature = "tokio")]
#[doc = include_str!("guide/tokio.md")]
pub mod tokio {}

#[doc = include_str!("guide/errors.md")]
pub mod errors {}

#[doc = include_str!("guide/real_networks.md")]
pub mod real_networks {}

#[doc = include_str!("guide/platforms.md")]
pub mod platforms {}

#[doc = include_str!("guide/porting.md")]
pub mod porting {}

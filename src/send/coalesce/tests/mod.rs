//! Which messages form a GSO batch.

#[cfg(test)]
mod runs;
pub(crate) mod twin;

//! The server and client of `programs/quic` as a user sees them, on either kind of socket and with unchanged quinn at
//! the other end.

mod kit;
mod migration;
mod rejections;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod stock;
mod transfers;

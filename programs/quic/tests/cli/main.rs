//! The server and client of `programs/quic` as a user sees them, on either kind of socket and with unchanged quinn at
//! the other end.

#[path = "../../src/identity.rs"]
mod identity;
mod kit;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod stock;
mod transfers;

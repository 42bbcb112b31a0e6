//! `programs/quic` as a user has it before them: its server and its client on either socket layer,
//! and quinn itself, as it comes, at the other end.

mod kit;
mod migration;
mod rejections;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod stock;
mod transfers;

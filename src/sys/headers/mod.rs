//! Headers for one system call. They are filled here and make no call.

mod recv;
mod send;

pub(crate) use recv::{RecvHeaders, Slots};
pub use recv::{RecvStorage, WiredRecvs};
pub(crate) use send::{OpenHeader, SendHeaders, SendStorage, WiredSends};

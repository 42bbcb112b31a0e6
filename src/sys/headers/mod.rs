//! Headers for one system call. They are filled here and make no call.

mod recv;
mod send;

pub(crate) use recv::{RecvHeaders, RecvStorage, Slots, WiredRecvs};
pub(crate) use send::{OpenHeader, SendHeaders, SendStorage, WiredSends};

//! Headers for one system call. They are filled here and make no call.

mod recv;
mod send;

pub(crate) use recv::{PreparedRecvs, RecvStorage, Slots};
pub(crate) use send::{OpenHeader, PreparedSends, SendHeaders, SendStorage};

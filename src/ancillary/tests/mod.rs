//! Bytes in, bytes out: the codec in every platform's layout, also on hand-made bytes.

mod codec;
mod systems;
// Its twin knows the control messages of Linux; other systems have only some of them.
#[cfg(linux_like)]
mod meta;
mod settings;

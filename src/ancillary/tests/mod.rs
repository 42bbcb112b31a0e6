//! Bytes in, bytes out: the codec in every platform's layout, and what it makes of hand-made bytes.

mod codec;
mod options;
// Its twin knows the lengths of Linux's control messages, of which other systems have a part.
#[cfg(linux_like)]
mod meta;

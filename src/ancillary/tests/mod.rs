//! Bytes in, bytes out: the codec in every platform's layout, and what it makes of hand-made bytes.

mod codec;
mod meta;

//! Arbitrary calls on two sockets, with arbitrary answers of the kernel.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmsg_fuzz::count(mmsg::fuzzing::model(data)));

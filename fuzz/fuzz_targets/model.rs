//! Any calls on two sockets, under a kernel that says anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmsg_fuzz::count(mmsg::fuzzing::model(data)));

//! GSO batches that the kernel rejects in various ways.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmsg_fuzz::count(mmsg::fuzzing::fallback(data)));

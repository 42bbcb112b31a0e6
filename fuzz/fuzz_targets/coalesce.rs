//! Which messages form GSO batches.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mmsg_fuzz::count(mmsg::fuzzing::coalesce(data)));

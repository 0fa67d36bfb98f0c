#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| reflector_fuzz::run("selector", input));

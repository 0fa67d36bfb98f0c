//! The saved corpora of the fuzzers, run with the stable compiler.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    panic,
    sync::{Mutex, PoisonError},
};

use reflector_fuzz::{TARGETS, corpus, run};

/// Runs a target over its corpus, and over what becomes of the inputs when a byte is changed or the end is missing.
fn rerun(target: &str) {
    // Memory is measured, which two at once would disturb.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let inputs = corpus::load(target).unwrap();
    assert!(inputs.len() > 10, "{target}: only {} inputs", inputs.len());
    for (n, input) in inputs.iter().enumerate() {
        let check = |input: &[u8], how: &str| {
            if panic::catch_unwind(|| run(target, input)).is_err() {
                panic!("{target}: input {n} {how} shows a fault: {}", input.escape_ascii());
            }
        };
        check(input, "as it is");
        let mut state = input.len() as u32 + 1;
        for _ in 0..4 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = state as usize % input.len().max(1);
            check(&input[..at.min(input.len())], &format!("cut at {at}"));
            let mut changed = input.clone();
            if let Some(byte) = changed.get_mut(at) {
                *byte ^= 1 << (state >> 29);
            }
            check(&changed, &format!("with byte {at} changed"));
        }
    }
}

macro_rules! corpora {
    ($($target:ident),+) => {
        $(#[test]
        fn $target() {
            rerun(stringify!($target));
        })+

        #[test]
        fn each_target_has_its_test() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($target)),+]);
        }
    };
}

corpora!(
    json_list,
    json_stream,
    protobuf_list,
    protobuf_watch,
    protobuf_serde,
    gzip,
    selector,
    continue_token,
    trim
);

//! What goes wrong over HTTP and is over within seconds: the same as `.ci/run` does in release.

use std::{error::Error, process::Command};

#[test]
fn reflector_comes_through() -> Result<(), Box<dyn Error>> {
    let output = Command::new(env!("CARGO_BIN_EXE_reflector-bench"))
        .args(["survive", "--smoke", "--out", env!("CARGO_TARGET_TMPDIR")])
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    Ok(())
}

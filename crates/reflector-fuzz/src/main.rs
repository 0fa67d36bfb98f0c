//! Writes the first inputs of the fuzzers: `reflector-fuzz SHARED INTO`, or runs one: `reflector-fuzz TARGET FILE`.

use std::{env, error::Error, fs, path::Path};

use reflector_fuzz::{TARGETS, run, seeds};

#[allow(clippy::print_stdout, reason = "a command")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [first, second] = &arguments[..] else {
        return Err("usage: reflector-fuzz SHARED INTO | reflector-fuzz TARGET FILE".into());
    };
    if TARGETS.iter().any(|(name, _)| name == first) {
        run(first, &fs::read(second)?);
        println!("{first}: no fault");
        return Ok(());
    }
    for (target, _) in TARGETS {
        let into = Path::new(second).join(target);
        fs::create_dir_all(&into)?;
        let seeds = seeds::of(target, Path::new(first))?;
        for (name, input) in &seeds {
            fs::write(into.join(name), input)?;
        }
        println!("{target}: {} inputs", seeds.len());
    }
    Ok(())
}

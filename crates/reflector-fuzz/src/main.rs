//! The corpora of the fuzzers, and single inputs. See `USAGE`.

use std::{env, error::Error, fs, path::Path};

use reflector_fuzz::{TARGETS, corpus, run, seeds};

const USAGE: &str = "usage:
  reflector-fuzz seed SHARED INTO   first inputs, made of the recordings in SHARED, into INTO/TARGET/
  reflector-fuzz unpack INTO        the saved corpora of the repository, into INTO/TARGET/
  reflector-fuzz pack FROM          saves what is in FROM/TARGET/ as the corpora of the repository
  reflector-fuzz run TARGET FILE    runs one input";

#[allow(clippy::print_stdout, reason = "a command")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["seed", shared, into] => {
            for (target, _) in TARGETS {
                let seeds = seeds::of(target, Path::new(shared))?;
                write(Path::new(into), target, seeds.iter().map(|(name, input)| (name.clone(), &input[..])))?;
                println!("{target}: {} inputs", seeds.len());
            }
        }
        ["unpack", into] => {
            for (target, _) in TARGETS {
                let inputs = corpus::load(target)?;
                let named = inputs.iter().enumerate().map(|(n, input)| (format!("saved-{n}"), &input[..]));
                write(Path::new(into), target, named)?;
                println!("{target}: {} inputs", inputs.len());
            }
        }
        ["pack", from] => {
            for (target, _) in TARGETS {
                println!("{target}: {} inputs", corpus::save(target, &Path::new(from).join(target))?);
            }
        }
        ["run", target, file] => {
            run(target, &fs::read(file)?);
            println!("{target}: no fault");
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn write<'a>(
    into: &Path,
    target: &str,
    inputs: impl Iterator<Item = (String, &'a [u8])>,
) -> std::io::Result<()> {
    let folder = into.join(target);
    fs::create_dir_all(&folder)?;
    for (name, input) in inputs {
        fs::write(folder.join(name), input)?;
    }
    Ok(())
}

//! Corpora in one file each: gzip of length and bytes of one input after the other, the length as four bytes with the least
//! significant first. Thousands of small files would be a burden on everybody who clones the repository.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

fn file(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(format!("{target}.gz"))
}

/// The saved inputs of a target.
///
/// # Errors
///
/// If the file cannot be read.
pub fn load(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(file(target))?).read_to_end(&mut bytes)?;
    let (mut inputs, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((length, more)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (input, more) = more.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        inputs.push(input.to_vec());
        rest = more;
    }
    Ok(inputs)
}

/// Saves the files of a folder as the inputs of a target, and tells how many there were.
///
/// # Errors
///
/// If something cannot be read or written.
pub fn save(target: &str, from: &Path) -> io::Result<usize> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(from)? {
        inputs.push(fs::read(entry?.path())?);
    }
    // In a fixed order, so that the same inputs make the same file.
    inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    fs::create_dir_all(file(target).parent().unwrap_or(Path::new(".")))?;
    let mut out = GzEncoder::new(fs::File::create(file(target))?, Compression::best());
    for input in &inputs {
        let length = u32::try_from(input.len()).map_err(io::Error::other)?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(input)?;
    }
    out.finish()?;
    Ok(inputs.len())
}

//! Files of the user, read up to a bound.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// The first `most` bytes of a file; `None` if there is no file.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(Some(text))
}

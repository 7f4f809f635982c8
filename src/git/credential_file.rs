//! Files with credentials. They are read again at each use, so that a rotated one counts at once.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::FetchError;

/// Reads a whole file with a credential, within a bound. `purpose` names it in errors.
pub fn read_credential(file: &Path, purpose: &'static str) -> Result<Vec<u8>, FetchError> {
    let fail =
        |problem: String| FetchError::CredentialFile { file: file.to_owned(), purpose, problem };
    let mut bytes = Vec::new();
    let open = File::open(file).map_err(|e| fail(e.to_string()))?;
    open.take(gitwork_signatures::limits::CREDENTIAL_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| fail(e.to_string()))?;
    if bytes.len() as u64 > gitwork_signatures::limits::CREDENTIAL_BYTES_MAX {
        return Err(fail(format!(
            "it is larger than {} bytes",
            gitwork_signatures::limits::CREDENTIAL_BYTES_MAX
        )));
    }
    Ok(bytes)
}

/// Reads a secret of one line. The line end that editors and `echo` add is not part of it.
pub(crate) fn read_secret(file: &Path, purpose: &'static str) -> Result<String, FetchError> {
    let fail = |problem: &str| FetchError::CredentialFile {
        file: file.to_owned(),
        purpose,
        problem: problem.to_owned(),
    };
    let bytes = read_credential(file, purpose)?;
    let text = String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8 text"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(fail("it is empty"));
    }
    if text.chars().any(char::is_control) {
        return Err(fail("it must be one line without control characters"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_files_lose_only_the_final_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for (content, expected) in
            [("a b\n", Some("a b")), ("x\r\n", Some("x")), ("", None), ("\n", None), ("a\nb", None)]
        {
            std::fs::write(&file, content).unwrap();
            assert_eq!(read_secret(&file, "token").ok().as_deref(), expected, "{content:?}");
        }
    }
}

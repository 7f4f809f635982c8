//! Splits a commit object into its signature and the signed content, which is everything else
//! (Git: gitformat-signature).
//!
//! libgit2 does this too, but treats the object as a C string: it leaves the bytes after a NUL out
//! of the signed content, and accepts a line of the message that looks like a signature. One
//! signature would fit many commits.

use gitwork_core::signature::{SignatureError, Signed};

/// The name of the signature header.
const HEADER: &[u8] = b"gpgsig ";
/// The prefix of all signature headers, including those for other hash algorithms.
const HEADERS: &[u8] = b"gpgsig";

/// Splits a commit object.
///
/// # Errors
/// `Unsigned`, and `Unreadable` for a signed commit that two programs may read differently.
pub fn signed(object: &[u8]) -> Result<Signed, SignatureError> {
    let unreadable = |why: &str| SignatureError::Unreadable(why.into());
    let (header, message) = object.split_at(header_length(object));
    let (mut signature, mut content) = (None::<Vec<u8>>, Vec::with_capacity(object.len()));
    let mut within = false;
    for line in header.split_inclusive(|byte| *byte == b'\n') {
        match (line.strip_prefix(b" "), &mut signature) {
            (Some(more), Some(signature)) if within => signature.extend(more),
            _ => {
                within = line.starts_with(HEADERS);
                if !within {
                    content.extend(line);
                    continue;
                }
                let first = line.strip_prefix(HEADER);
                let first =
                    first.ok_or_else(|| unreadable("the commit has one for another hash"))?;
                if signature.replace(first.to_vec()).is_some() {
                    return Err(unreadable("the commit has several"));
                }
            }
        }
    }
    let signature = signature.ok_or(SignatureError::Unsigned)?;
    if object.contains(&0) {
        return Err(unreadable("the commit has a NUL byte, at which some programs stop reading"));
    }
    if message.is_empty() {
        return Err(unreadable("the commit's header has no end"));
    }
    content.extend(message);
    Ok(Signed { signature, content })
}

/// The bytes up to the first empty line, or all if there is none.
fn header_length(object: &[u8]) -> usize {
    if object.starts_with(b"\n") {
        return 0;
    }
    let end = object.windows(2).position(|pair| pair == b"\n\n");
    end.map_or(object.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "tree 1\nparent 2\nauthor A <a> 0 +0000\n";
    const SIGNATURE: &str = "gpgsig -----BEGIN\n \n abc\n -----END\n";

    fn parts(object: &str) -> Result<(String, String), String> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let read = signed(object.as_bytes()).map_err(|error| error.to_string())?;
        Ok((text(read.signature), text(read.content)))
    }

    #[test]
    fn signed_content_is_everything_but_the_signature() {
        for message in ["\nhello\n", "\n", "\n\n\nb", "\ngpgsig -----BEGIN\n abc\n"] {
            let found = parts(&format!("{HEAD}{SIGNATURE}encoding x\n{message}"));
            let content = format!("{HEAD}encoding x\n{message}");
            assert_eq!(found, Ok(("-----BEGIN\n\nabc\n-----END\n".into(), content)), "{message:?}");
        }
        // A merged tag has its own signature, which is part of the signed content.
        let tagged = format!("{HEAD}mergetag object 1\n gpgsig no\n -----BEGIN\n");
        let found = parts(&format!("{tagged}{SIGNATURE}\nmerge\n"));
        assert_eq!(found.map(|(_, content)| content), Ok(format!("{tagged}\nmerge\n")));
    }

    #[test]
    fn ambiguous_commits_are_unreadable() {
        for (object, expected) in [
            (format!("{HEAD}\nhello\n"), "has no signature"),
            (format!("{HEAD}\nhello\n{SIGNATURE}"), "has no signature"),
            (String::new(), "has no signature"),
            (format!("\n{SIGNATURE}"), "has no signature"),
            (format!("{HEAD}{SIGNATURE}{SIGNATURE}\nhello\n"), "several"),
            (format!("{HEAD}{SIGNATURE}gpgsig-sha256 x\n\nhello\n"), "another hash"),
            (format!("{HEAD}{SIGNATURE}\nhello\n\0and more"), "NUL"),
            (format!("{HEAD}{SIGNATURE} "), "no end"),
        ] {
            let error = parts(&object).unwrap_err();
            assert!(error.contains(expected), "{object:?}: {error}");
        }
    }
}

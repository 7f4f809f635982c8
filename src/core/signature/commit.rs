//! A commit object, taken apart into its signature and what was signed, which is all the rest (Git: gitformat-signature).
//!
//! libgit2 does this too, but takes the object for a C string: what stands behind a NUL byte is left out of what was
//! signed, and a line of the message that looks like a signature counts as one. So one signature would fit many commits.

use super::{SignatureError, Signed};

/// The header's name, and how those begin that hold the signature of the same commit under another hash.
const HEADER: &[u8] = b"gpgsig ";
const HEADERS: &[u8] = b"gpgsig";

/// Takes a commit object apart.
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
                    first.ok_or_else(|| unreadable("the commit has one of another hash"))?;
                if signature.replace(first.to_vec()).is_some() {
                    return Err(unreadable("the commit has several"));
                }
            }
        }
    }
    let signature = signature.ok_or(SignatureError::Unsigned)?;
    if object.contains(&0) {
        return Err(unreadable("the commit has a NUL byte, at which programs stop to read"));
    }
    if message.is_empty() {
        return Err(unreadable("the commit's header has no end"));
    }
    content.extend(message);
    Ok(Signed { signature, content })
}

/// Up to the first empty line, or to the end where there is none.
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
    fn all_but_the_signature_was_signed() {
        for message in ["\nhello\n", "\n", "\n\n\nb", "\ngpgsig -----BEGIN\n abc\n"] {
            let found = parts(&format!("{HEAD}{SIGNATURE}encoding x\n{message}"));
            let content = format!("{HEAD}encoding x\n{message}");
            assert_eq!(found, Ok(("-----BEGIN\n\nabc\n-----END\n".into(), content)), "{message:?}");
        }
        // The tag that was merged has a signature of its own, which is part of what was signed.
        let tagged = format!("{HEAD}mergetag object 1\n gpgsig no\n -----BEGIN\n");
        let found = parts(&format!("{tagged}{SIGNATURE}\nmerge\n"));
        assert_eq!(found.map(|(_, content)| content), Ok(format!("{tagged}\nmerge\n")));
    }

    #[test]
    fn what_may_be_read_in_two_ways_is_no_signature() {
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

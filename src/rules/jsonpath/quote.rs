//! Unquotes texts as Go's `strconv.Unquote` does.

/// Replaces Go's escape sequences in the text between quotes. Returns `None` for an unknown escape
/// sequence.
pub fn unquote(text: &str, quote: char) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return None;
        }
        if c == '\\' {
            escape(&mut chars, quote, &mut out)?;
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    // \xff may build what is no UTF-8; Go replaces it when it writes JSON.
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Replaces one escape sequence after its backslash, as Go's `strconv.UnquoteChar` does.
fn escape(chars: &mut std::str::Chars<'_>, quote: char, out: &mut Vec<u8>) -> Option<()> {
    let byte = match chars.next()? {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        c if c == quote => u8::try_from(c).ok()?,
        'x' => u8::try_from(digits(chars, 2, 16)?).ok()?,
        'u' => return unicode(digits(chars, 4, 16)?, out),
        'U' => return unicode(digits(chars, 8, 16)?, out),
        c => {
            let first = c.to_digit(8)?;
            u8::try_from(first * 64 + digits(chars, 2, 8)?).ok()?
        }
    };
    out.push(byte);
    Some(())
}

fn unicode(code: u32, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

fn digits(chars: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    let mut value = 0_u32;
    for _ in 0..count {
        value = value.checked_mul(radix)?.checked_add(chars.next()?.to_digit(radix)?)?;
    }
    Some(value)
}

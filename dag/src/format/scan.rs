//! How far a run of bytes of JSON goes: blanks, or plain text. Sixteen bytes at a time, as most blanks are
//! indentation and most texts are names.

use wide::u8x16;

/// How many blanks the text begins with.
#[inline]
pub(super) fn blanks(text: &[u8]) -> usize {
    let ends = |bytes: u8x16| {
        let is = |blank: u8| bytes.simd_eq(u8x16::splat(blank));
        !(is(b' ') | is(b'\n') | is(b'\r') | is(b'\t'))
    };
    run(text, ends, |byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}

/// How many bytes of the text come before a quotation mark, a backslash or a control character.
#[inline]
pub(super) fn plain(text: &[u8]) -> usize {
    let ends = |bytes: u8x16| {
        let is = |special: u8| bytes.simd_eq(u8x16::splat(special));
        let control = bytes.min(u8x16::splat(b' ' - 1)).simd_eq(bytes);
        control | is(b'"') | is(b'\\')
    };
    run(text, ends, |byte| matches!(byte, b'"' | b'\\' | 0..b' '))
}

/// How many bytes come before the first that ends the run, as `in_block` and `ends` say alike.
#[inline]
fn run(text: &[u8], in_block: impl Fn(u8x16) -> u8x16, ends: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(block) = text[at..].first_chunk() {
        let found = in_block(u8x16::new(*block)).to_bitmask();
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += block.len();
    }
    text[at..].iter().position(|byte| ends(*byte)).map_or(text.len(), |rest| at + rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn position(text: &[u8], ends: impl Fn(&u8) -> bool) -> usize {
        text.iter().position(ends).unwrap_or(text.len())
    }

    proptest! {
        #[test]
        fn runs_are_measured(
            blank in prop::collection::vec(prop::sample::select(b" \n\r\t".to_vec()), 0..40),
            text in prop::collection::vec(any::<u8>(), 0..8),
            tail in prop::collection::vec(prop_oneof![b' '..b'~', any::<u8>()], 0..40),
        ) {
            let text = [blank, text, tail].concat();
            let no_blank = |byte: &u8| !b" \n\r\t".contains(byte);
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
            for from in 0..text.len() {
                let text = &text[from..];
                prop_assert_eq!(blanks(text), position(text, no_blank));
                prop_assert_eq!(plain(text), position(text, special));
            }
        }
    }
}

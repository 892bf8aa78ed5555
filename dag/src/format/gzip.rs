//! Unpacking gzip with a limit on the size of what comes out.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

/// Whether the data begins as every gzip file does.
pub(super) fn is_gzip(data: &[u8]) -> bool {
    data.starts_with(b"\x1f\x8b")
}

/// Unpacks all members of a gzip file. No more than `limit` bytes are ever held.
///
/// # Errors
/// [`Error::Parse`] if the data is damaged, cut off or larger than `limit`.
pub(super) fn unpack(packed: &[u8], limit: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    // A good guess saves copying; no honest file is packed better than 1032 times.
    let guess = size_hint(packed).min(packed.len() as u64 * 1032).min(limit);
    if text.try_reserve_exact(guess as usize + 1).is_err() {
        return Err(error(0, format!("{guess} bytes do not fit into memory")));
    }
    let mut decoder = MultiGzDecoder::new(packed).take(limit.saturating_add(1));
    if let Err(reason) = decoder.read_to_end(&mut text) {
        let message = match reason.kind() {
            std::io::ErrorKind::UnexpectedEof => "the compressed data is cut off".into(),
            _ => format!("the compressed data is damaged ({reason})"),
        };
        return Err(error(text.len(), message));
    }
    if text.len() as u64 > limit {
        return Err(error(text.len(), format!("it unpacks to more than the {limit} bytes allowed")));
    }
    Ok(text)
}

/// The size that the last member claims, modulo 2^32.
fn size_hint(packed: &[u8]) -> u64 {
    packed.last_chunk::<4>().map_or(0, |size| u64::from(u32::from_le_bytes(*size)))
}

fn error(offset: usize, message: String) -> Error {
    Error::Parse { format: "gzip", place: format!("byte {offset} of the unpacked data"), message }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn pack(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn all_members_are_unpacked() {
        let packed = [pack(b"one "), pack(b"two")].concat();
        assert!(is_gzip(&packed));
        assert_eq!(unpack(&packed, 7).unwrap(), b"one two");
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = pack(&vec![b' '; 10_000_000]);
        assert!(bomb.len() < 20_000);
        let error = unpack(&bomb, 1000).unwrap_err().to_string();
        assert!(error.contains("more than the 1000 bytes allowed"), "{error}");
        assert_eq!(unpack(&bomb, 10_000_000).unwrap().len(), 10_000_000);
    }

    #[test]
    fn damage_is_an_error() {
        let packed = pack(&(0..2000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        for end in (2..packed.len()).step_by(64) {
            let error = unpack(&packed[..end], u64::MAX).unwrap_err().to_string();
            assert!(error.contains("cut off"), "{error}");
        }
        let mut flipped = packed.clone();
        let checksum = packed.len() - 6;
        flipped[checksum] ^= 1;
        assert!(unpack(&flipped, u64::MAX).unwrap_err().to_string().contains("damaged"));
    }
}

//! How records lie in the file.
//!
//! ```text
//!   file    = "mdtsjrnl" version:u32 crc:u32(of the 12 bytes before) record*
//!   record  = length:u32 crc:u32(of the payload) crc:u32(of the 8 bytes before) payload
//! ```
//! All numbers are little-endian; checksums are CRC-32 (IEEE). The header of a record has a checksum of its own, so that
//! a damaged length is not taken for the torn end of the file.

/// First bytes of every journal.
pub(super) const MAGIC: [u8; 8] = *b"mdtsjrnl";
/// Version of the format that is written, and the newest that is read.
pub(super) const VERSION: u32 = 4;
/// Bytes of the file header.
pub(super) const FILE_HEADER: usize = 16;
/// Bytes before each payload.
pub(super) const RECORD_HEADER: usize = 12;

/// The file header of this version.
pub(super) fn file_header() -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let sum = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// What a file header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A journal of this version.
    Journal(u32),
    /// A journal with a damaged header.
    Damaged,
    /// Something else.
    Other,
}

pub(super) fn file_kind(header: &[u8; FILE_HEADER]) -> FileKind {
    if crc32fast::hash(&header[..12]) == number(header, 12) {
        return if header[..8] == MAGIC { FileKind::Journal(number(header, 8)) } else { FileKind::Other };
    }
    // One damaged byte leaves the rest of the magic, or all of it.
    let alike = header.iter().zip(&MAGIC).filter(|(a, b)| a == b).count();
    if alike + 1 >= MAGIC.len() { FileKind::Damaged } else { FileKind::Other }
}

/// The header in front of this payload; `None` if the payload is too long for one.
pub(super) fn record_header(payload: &[u8]) -> Option<[u8; RECORD_HEADER]> {
    let mut header = [0; RECORD_HEADER];
    header[..4].copy_from_slice(&u32::try_from(payload.len()).ok()?.to_le_bytes());
    header[4..8].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let sum = crc32fast::hash(&header[..8]);
    header[8..].copy_from_slice(&sum.to_le_bytes());
    Some(header)
}

/// Length and checksum of the payload; `None` if the header is damaged.
pub(super) fn payload(header: &[u8; RECORD_HEADER]) -> Option<(u32, u32)> {
    (crc32fast::hash(&header[..8]) == number(header, 8)).then(|| (number(header, 0), number(header, 4)))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

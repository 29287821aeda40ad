//! A walk over the records of a batch: what is wanted of each is read, the rest is skipped.

use crate::decompress::RECORDS_MAX_BYTES;
use std::io::{self, BufRead, ErrorKind, Read};
use std::ops::ControlFlow;

/// What a walk sees of a record.
pub(crate) struct Seen {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i64,
}

/// How a walk ended.
pub(crate) enum Walked {
    /// There was no further record; the bytes of all.
    ToTheEnd { bytes: u64 },
    /// The visitor had seen enough.
    Stopped,
}

/// Visits each record.
///
/// # Errors
/// The bytes are no records, or cannot be decompressed. A record cut off at [`RECORDS_MAX_BYTES`] is the end.
pub(crate) fn walk(
    mut records: impl BufRead,
    mut visit: impl FnMut(&Seen) -> ControlFlow<()>,
) -> io::Result<Walked> {
    let mut bytes = 0u64;
    while !records.fill_buf()?.is_empty() {
        match next_record(&mut records, &mut bytes) {
            Ok(record) if visit(&record).is_continue() => {}
            Ok(_) => return Ok(Walked::Stopped),
            Err(_) if bytes >= RECORDS_MAX_BYTES => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Walked::ToTheEnd { bytes })
}

/// Reads a record and skips what is not wanted of it; counts its bytes, also those that are missing.
fn next_record(records: &mut impl BufRead, bytes: &mut u64) -> io::Result<Seen> {
    let mut prefix = 0;
    let length = u64::try_from(get_varint(records, &mut prefix)?).map_err(|_| ErrorKind::InvalidData)?;
    *bytes += prefix + length;
    let mut read = 1;
    let _attributes = get_u8(records)?;
    let timestamp_delta = get_varint(records, &mut read)?;
    let offset_delta = get_varint(records, &mut read)?;
    let rest = length.checked_sub(read).ok_or(ErrorKind::InvalidData)?;
    match io::copy(&mut records.take(rest), &mut io::sink())? == rest {
        true => Ok(Seen { timestamp_delta, offset_delta }),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn get_u8(bytes: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    bytes.read_exact(&mut byte)?;
    Ok(byte[0])
}

/// A zigzag varint, as Kafka writes it in records; adds its length to `read`.
fn get_varint(bytes: &mut impl Read, read: &mut u64) -> io::Result<i64> {
    let mut raw = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = get_u8(bytes)?;
        *read += 1;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((raw >> 1) as i64 ^ -((raw & 1) as i64));
        }
    }
    Err(ErrorKind::InvalidData.into())
}

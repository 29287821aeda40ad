//! The records of a batch as a stream, whatever they were compressed with: none, gzip, snappy, lz4, zstd.
//!
//! A stream yields at most [`RECORDS_MAX_BYTES`] and holds no more than that: nothing is allocated for what compressed bytes
//! only announce. A zstd frame that wants a larger window is refused. Snappy comes in the framing of Java's library (xerial) or, from other clients, as one raw block.

use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

/// Most bytes of one batch that are looked at.
pub(crate) const RECORDS_MAX_BYTES: u64 = 64 << 20;
/// Largest block of snappy; Java writes 32 KiB unless told otherwise.
const SNAPPY_BLOCK_MAX_BYTES: usize = 16 << 20;
/// What Java's snappy begins with: its name, then its version and the oldest that can read it, as 32 bits each.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;

/// A stream of the records in `compressed`; `codec` is the number in the batch's attributes.
///
/// # Errors
/// There is no such codec, or the bytes are none of it. Later ones come while reading.
pub(crate) fn records(codec: i16, compressed: &[u8]) -> Result<Box<dyn BufRead + '_>> {
    let stream: Box<dyn Read + '_> = match codec {
        0 => Box::new(compressed),
        1 => Box::new(GzDecoder::new(compressed)),
        2 => Box::new(Snappy::new(compressed)),
        3 => Box::new(FrameDecoder::new(compressed)),
        4 => {
            let decoder = StreamingDecoder::new_with_max_window_size(compressed, RECORDS_MAX_BYTES);
            Box::new(decoder.map_err(Error::other)?)
        }
        _ => return Err(ErrorKind::Unsupported.into()),
    };
    Ok(Box::new(BufReader::new(stream.take(RECORDS_MAX_BYTES))))
}

/// Blocks of snappy, each decompressed when the one before was read.
struct Snappy<'a> {
    rest: &'a [u8],
    framed: bool,
    block: Vec<u8>,
    read_bytes: usize,
}

impl<'a> Snappy<'a> {
    fn new(compressed: &'a [u8]) -> Self {
        let framed = compressed.len() >= XERIAL_HEADER_BYTES && compressed.starts_with(XERIAL_MAGIC);
        let rest = if framed { &compressed[XERIAL_HEADER_BYTES..] } else { compressed };
        Snappy { rest, framed, block: Vec::new(), read_bytes: 0 }
    }

    fn next_block(&mut self) -> Option<&'a [u8]> {
        if !self.framed {
            return Some(std::mem::take(&mut self.rest));
        }
        let (length, rest) = self.rest.split_first_chunk()?;
        let (block, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.rest = rest;
        Some(block)
    }
}

impl Read for Snappy<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        while self.read_bytes == self.block.len() && !self.rest.is_empty() {
            let block = self.next_block().ok_or(ErrorKind::InvalidData)?;
            if snap::raw::decompress_len(block)? > SNAPPY_BLOCK_MAX_BYTES {
                return Err(ErrorKind::InvalidData.into());
            }
            self.block = snap::raw::Decoder::new().decompress_vec(block)?;
            self.read_bytes = 0;
        }
        let read = (&self.block[self.read_bytes..]).read(out)?;
        self.read_bytes += read;
        Ok(read)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// `plain`, compressed by each codec as clients do it.
    pub(crate) fn compressed(plain: &[u8]) -> Vec<(i16, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(plain).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(plain).unwrap();
        let snappy = |plain| snap::raw::Encoder::new().compress_vec(plain).unwrap();
        let mut xerial = [XERIAL_MAGIC, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        for block in plain.chunks(plain.len().div_ceil(3)) {
            let block = snappy(block);
            xerial.extend((block.len() as u32).to_be_bytes());
            xerial.extend(block);
        }
        let zstd = ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest);
        let lz4 = lz4.finish().unwrap();
        vec![
            (0, plain.to_vec()),
            (1, gzip.finish().unwrap()),
            (2, snappy(plain)),
            (2, xerial),
            (3, lz4),
            (4, zstd),
        ]
    }

    fn all(codec: i16, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        records(codec, bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn every_codec_is_read() {
        let plain: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7).to_be_bytes()).collect();
        for (codec, bytes) in compressed(&plain) {
            assert!(codec == 0 || bytes.len() < plain.len() * 3 / 4, "{codec}: {} bytes", bytes.len());
            assert_eq!(all(codec, &bytes).unwrap(), plain, "{codec}");
        }
        assert!(all(5, &plain).is_err());
    }

    #[test]
    fn torn_and_foreign_bytes_are_errors() {
        for (codec, bytes) in
            compressed(b"some records, some more records, some more of them").into_iter().skip(1)
        {
            assert!(all(codec, &bytes[..bytes.len() - 5]).is_err(), "{codec}: torn");
            assert!(all(codec, b"\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f").is_err(), "{codec}: foreign");
        }
    }

    #[test]
    fn what_grows_beyond_the_limit_is_cut() {
        let plain = vec![0; RECORDS_MAX_BYTES as usize + 1_000];
        for (codec, bytes) in compressed(&plain) {
            match all(codec, &bytes) {
                Ok(read) => assert_eq!(read.len() as u64, RECORDS_MAX_BYTES, "{codec}"),
                Err(_) => assert_eq!(codec, 2, "a snappy block as large as that"),
            }
        }
    }
}

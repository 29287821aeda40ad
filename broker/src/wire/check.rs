//! The walker: one pass over a frame, nothing allocated.

use super::field::{Field, Kind, TEXT_BYTES, struct_bytes};
use super::{fields, is_flexible};
use kafka_protocol::messages::ApiKey;

/// How many bytes of memory the decoded form may take for each byte of the frame, beside [`DECODED_FREE_BYTES`]. The
/// dearest honest array, Metadata of one-letter topics, takes 24 (72 bytes of memory for three on the wire).
const DECODED_PER_BYTE: usize = 32;
/// What any request may take.
const DECODED_FREE_BYTES: usize = 16 << 10;
/// Memory of the first unknown tagged field of a struct: a node of the map that has room for eleven.
const FIRST_TAG_BYTES: usize = 480;
/// Memory of each further one: its share of a node that is at least half full, and of the nodes above.
const NEXT_TAG_BYTES: usize = 96;

/// A frame that cannot be a request of its API and version, or that would take too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The field in which this was found out.
    pub(crate) field: &'static str,
}

/// Checks a request's body. Returns the bytes that its decoded form takes in memory, beside the frame: at most 32 for
/// each byte of the body and 16 KiB, and at most `decoded_max_bytes`. What is behind the last field is let pass, as Kafka
/// does: librdkafka sends three bytes more when it asks for the Metadata of all topics.
///
/// # Errors
/// A length beyond the end of the frame, an array of more elements than there are bytes left, a null where none may
/// be, a varint or a known tagged field that does not fit, or too much memory.
pub(crate) fn check(
    api: ApiKey,
    version: i16,
    body: &[u8],
    decoded_max_bytes: usize,
) -> Result<usize, Malformed> {
    let fields = fields(api).ok_or(Malformed { field: "api_key" })?;
    let mut walk = Walk::new(body, version, is_flexible(api, version));
    walk.decoded_max = walk.decoded_max.min(decoded_max_bytes);
    walk.fields(fields)?;
    Ok(walk.decoded)
}

/// Checks a request's header (version 1, or 2 where the request is flexible) at the start of `frame`.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_header(api: ApiKey, version: i16, frame: &[u8]) -> Result<(), Malformed> {
    const FIXED_BYTES: usize = 8;
    let mut walk = Walk::new(frame, version, false);
    // The frame is mostly body: a header may take the free part alone, since nobody counts it.
    walk.decoded_max = DECODED_FREE_BYTES;
    walk.skip(FIXED_BYTES, "header")?;
    // Not compact even in version 2, so that a broker can read it whatever the version.
    let client_id = Field::nullable(super::field::field("client_id", Kind::Text));
    walk.value(&client_id)?;
    if is_flexible(api, version) {
        walk.flexible = true;
        walk.tags(&[])?;
    }
    Ok(())
}

struct Walk<'a> {
    rest: &'a [u8],
    version: i16,
    flexible: bool,
    /// Bytes that what was walked takes when decoded.
    decoded: usize,
    decoded_max: usize,
}

impl<'a> Walk<'a> {
    fn new(frame: &'a [u8], version: i16, flexible: bool) -> Self {
        let decoded_max = DECODED_FREE_BYTES + DECODED_PER_BYTE * frame.len();
        Walk { rest: frame, version, flexible, decoded: 0, decoded_max }
    }

    /// A struct: its fields in a row, then its tagged fields.
    fn fields(&mut self, fields: &'static [Field]) -> Result<(), Malformed> {
        for field in fields {
            if field.tag.is_none() && field.is_in(self.version) {
                self.value(field)?;
            }
        }
        if self.flexible { self.tags(fields) } else { Ok(()) }
    }

    fn value(&mut self, field: &Field) -> Result<(), Malformed> {
        let name = field.name;
        match field.kind {
            Kind::Int(width) => self.skip(width.into(), name),
            Kind::Text => {
                let length = self.length(field, 2)?;
                self.skip(length, name)
            }
            Kind::Blob => {
                let length = self.length(field, 4)?;
                self.skip(length, name)
            }
            Kind::Ints(width) => {
                let count = self.length(field, 4)?;
                self.allocate(count, width.into(), name)?;
                self.skip(count.saturating_mul(width.into()), name)
            }
            Kind::Texts => {
                let count = self.length(field, 4)?;
                self.allocate(count, TEXT_BYTES, name)?;
                let element = super::field::field(name, Kind::Text);
                (0..count).try_for_each(|_| self.value(&element))
            }
            Kind::Struct(fields) => self.fields(fields),
            Kind::Structs(fields) => {
                let count = self.length(field, 4)?;
                self.allocate(count, struct_bytes(fields), name)?;
                (0..count).try_for_each(|_| self.fields(fields))
            }
        }
    }

    /// A length or a count, at most the bytes left: every element has at least one. Null is 0. `width` is that of a
    /// length that is not compact.
    fn length(&mut self, field: &Field, width: usize) -> Result<usize, Malformed> {
        let name = field.name;
        let length = if self.flexible {
            i64::from(self.varint(name)?) - 1
        } else {
            let bytes = self.take(width, name)?;
            let negative = bytes[0] & 0x80 != 0;
            bytes.iter().fold(if negative { -1 } else { 0 }, |length, byte| length << 8 | i64::from(*byte))
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.rest.len() => Ok(length),
            Err(_) if length == -1 && field.may_be_null(self.version) => Ok(0),
            _ => Err(Malformed { field: name }),
        }
    }

    /// Tagged fields: the known ones must fill the size they announce.
    fn tags(&mut self, fields: &'static [Field]) -> Result<(), Malformed> {
        const NAME: &str = "tagged_fields";
        let count = self.varint(NAME)?;
        let mut unknown_bytes = FIRST_TAG_BYTES;
        for _ in 0..count {
            let tag = self.varint(NAME)?;
            let size = self.varint(NAME)? as usize;
            let known = fields.iter().find(|field| field.tag == Some(tag) && field.is_in(self.version));
            match known {
                Some(field) => {
                    let end = self.rest.len().checked_sub(size).ok_or(Malformed { field: field.name })?;
                    self.value(field)?;
                    if self.rest.len() != end {
                        return Err(Malformed { field: field.name });
                    }
                }
                None => {
                    self.allocate(1, unknown_bytes, NAME)?;
                    unknown_bytes = NEXT_TAG_BYTES;
                    self.skip(size, NAME)?;
                }
            }
        }
        Ok(())
    }

    /// An unsigned varint of 32 bits.
    fn varint(&mut self, name: &'static str) -> Result<u32, Malformed> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1, name)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| Malformed { field: name });
            }
        }
        Err(Malformed { field: name })
    }

    fn allocate(&mut self, count: usize, bytes: usize, name: &'static str) -> Result<(), Malformed> {
        // No overflow: a count is at most the frame's length, a struct some hundred bytes.
        self.decoded += count * bytes;
        if self.decoded > self.decoded_max { Err(Malformed { field: name }) } else { Ok(()) }
    }

    fn skip(&mut self, bytes: usize, name: &'static str) -> Result<(), Malformed> {
        self.take(bytes, name).map(|_| ())
    }

    fn take(&mut self, bytes: usize, name: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(Malformed { field: name })?;
        self.rest = rest;
        Ok(taken)
    }
}

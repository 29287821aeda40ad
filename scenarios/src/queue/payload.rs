//! Records that describe themselves, so that whoever reads one can tell whether it is what was sent.
//!
//! The value is a number in decimal digits. A header names the key that the record was sent to; another holds a digest of
//! key, value and timestamp. As in Jepsen's tests the record's own key is null.

use client::{ConsumerRecord, Header, ProducerRecord, TopicPartition};
use std::fmt::Write;

/// The header that names the key.
const KEY: &str = "key";
/// The header with the digest.
const DIGEST: &str = "digest";

/// What stands for a payload that is not a number: no worker writes it.
const NOT_A_VALUE: u64 = u64::MAX;

/// The record that carries `value`, sent at `timestamp_ms` by its sender's clock.
pub(super) fn record(partition: TopicPartition, key: u32, value: u64, timestamp_ms: i64) -> ProducerRecord {
    let headers = vec![
        Header::new(KEY, key.to_string()),
        Header::new(DIGEST, digest(key, value, timestamp_ms).to_string()),
    ];
    ProducerRecord {
        headers,
        timestamp_ms: Some(timestamp_ms),
        ..ProducerRecord::new(partition, value.to_string())
    }
}

/// The value of a record polled from `key`, and what is wrong with the record.
pub(super) fn read(key: u32, record: &ConsumerRecord) -> (u64, Option<String>) {
    let text = record.value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
    let value = text.and_then(|text| text.parse().ok());
    let header = |name: &str| {
        let found = record.headers.iter().find(|header| header.key == name)?;
        std::str::from_utf8(found.value.as_deref()?).ok()
    };
    let expected = value.map(|value| digest(key, value, record.timestamp_ms));
    let expected = expected.as_ref().map(Short::as_str);
    let problem = match value {
        None => Some("its value is not a number".to_string()),
        Some(_) if record.key.is_some() => Some("it has a key".to_string()),
        Some(_) if header(KEY) != Some(short(format_args!("{key}")).as_str()) => {
            Some(format!("it was sent to key {}", header(KEY).unwrap_or("(none)")))
        }
        Some(_) if header(DIGEST) != expected || record.headers.len() != 2 => {
            Some("its value, timestamp or headers are not those that were sent".to_string())
        }
        Some(_) => None,
    };
    let at = |problem| {
        format!("offset {} of {} (value {}): {problem}", record.offset, record.partition, text.unwrap_or("?"))
    };
    (value.unwrap_or(NOT_A_VALUE), problem.map(at))
}

fn digest(key: u32, value: u64, timestamp_ms: i64) -> Short {
    let words = short(format_args!("{key} {value} {timestamp_ms}"));
    short(format_args!("{:08x}", crc32c::crc32c(words.as_str().as_bytes())))
}

/// A few words on the stack: every record that anybody polls is looked at.
struct Short {
    bytes: [u8; SHORT_BYTES],
    len: usize,
}

/// Room for three numbers.
const SHORT_BYTES: usize = 64;

fn short(words: std::fmt::Arguments<'_>) -> Short {
    let mut short = Short { bytes: [0; SHORT_BYTES], len: 0 };
    short.write_fmt(words).expect("numbers are short");
    short
}

impl Short {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("it was written as text")
    }
}

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled() -> ConsumerRecord {
        let sent = record(TopicPartition::new("t2", 1), 5, 141, 77);
        ConsumerRecord {
            partition: sent.partition,
            offset: 274,
            timestamp_ms: 77,
            key: None,
            value: Some(sent.value),
            headers: sent.headers,
        }
    }

    #[test]
    fn a_record_that_arrives_as_it_was_sent_is_whole() {
        assert_eq!(read(5, &polled()), (141, None));
    }

    #[test]
    fn whatever_changed_on_the_way_is_seen() {
        let damaged = |damage: fn(&mut ConsumerRecord)| {
            let mut record = polled();
            damage(&mut record);
            read(5, &record).1.expect("damage is seen")
        };
        assert!(damaged(|record| record.value = Some("142".into())).contains("not those that were sent"));
        assert!(damaged(|record| record.timestamp_ms = 78).contains("not those that were sent"));
        assert!(damaged(|record| drop(record.headers.pop())).contains("not those that were sent"));
        assert!(damaged(|record| record.key = Some("x".into())).contains("it has a key"));
        assert!(damaged(|record| record.value = None).contains("not a number"));
        assert_eq!(
            read(4, &polled()).1.expect("damage is seen"),
            "offset 274 of t2-1 (value 141): it was sent to key 5"
        );
    }
}

//! Records handed out, in the words of the event `consumer.polled`: there is one for each partition of a poll, with the
//! first offset, and with all as `OFFSET=VALUE`, separated by commas. A value that is not plain text reads `0x` and its
//! bytes in hexadecimal digits.

use crate::types::TopicPartition;
use std::fmt::Write;

const HEX: &str = "0x";

/// Tells what was handed out to `client` of one partition: offsets and values.
pub(crate) fn tell<'a>(
    client: &str,
    partition: &TopicPartition,
    records: impl Iterator<Item = (i64, &'a [u8])>,
) {
    let mut words = String::new();
    let mut first = None;
    for (offset, value) in records {
        if first.is_some() {
            words.push(',');
        }
        first.get_or_insert(offset);
        // Writing to a String cannot fail.
        let _ = write!(words, "{offset}=");
        push_value(&mut words, value);
    }
    rt::event!(
        "consumer.polled",
        client = client,
        partition = &partition.to_string(),
        offset = first.unwrap_or(-1),
        records = &words
    );
}

fn push_value(words: &mut String, value: &[u8]) {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b',';
    match std::str::from_utf8(value) {
        Ok(text) if value.iter().all(is_plain) && !text.starts_with(HEX) => words.push_str(text),
        _ => {
            words.push_str(HEX);
            value.iter().for_each(|byte| {
                let _ = write!(words, "{byte:02x}");
            });
        }
    }
}

/// Offset and value of each record that an event `consumer.polled` has in its field `records`.
pub fn polled_records(words: &str) -> impl Iterator<Item = (i64, Vec<u8>)> {
    words.split(',').filter_map(|word| {
        let (offset, value) = word.split_once('=')?;
        Some((offset.parse().ok()?, read_value(value)?))
    })
}

fn read_value(word: &str) -> Option<Vec<u8>> {
    let Some(digits) = word.strip_prefix(HEX) else { return Some(word.as_bytes().to_vec()) };
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_is_read_as_it_was_told() {
        let values: [&[u8]; 7] = [b"141", b"", b"a=b", b"a,b", b"0x1", b"two words", &[0, 255]];
        let told: Vec<String> = values
            .iter()
            .map(|value| {
                let mut word = String::new();
                push_value(&mut word, value);
                word
            })
            .collect();
        assert_eq!(told, ["141", "", "a=b", "0x612c62", "0x307831", "0x74776f20776f726473", "0x00ff"]);
        let words: Vec<String> = (5..).zip(&told).map(|(offset, word)| format!("{offset}={word}")).collect();
        let read: Vec<(i64, Vec<u8>)> = polled_records(&words.join(",")).collect();
        let expected = (5..).zip(values).map(|(offset, value)| (offset, value.to_vec()));
        assert_eq!(read, expected.collect::<Vec<_>>());
        assert_eq!(polled_records("").count(), 0);
    }
}

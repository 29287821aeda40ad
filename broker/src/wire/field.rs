//! The words in which the tables of this folder are written.

/// How a field's bytes tell where they end.
pub(super) enum Kind {
    /// That many bytes.
    Int(u8),
    /// Text behind its length.
    Text,
    /// Bytes behind their length.
    Blob,
    /// An array of elements of that many bytes.
    Ints(u8),
    /// An array of texts.
    Texts,
    /// Fields in a row.
    Struct(&'static [Field]),
    /// An array of such structs.
    Structs(&'static [Field]),
}

/// A field of a request.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    since: i16,
    until: i16,
    nullable_since: i16,
    /// Its number among the tagged fields, where it is one.
    pub(super) tag: Option<u32>,
}

/// A field of every version, never null and not tagged.
pub(super) const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, since: 0, until: i16::MAX, nullable_since: i16::MAX, tag: None }
}

impl Field {
    /// First version that has it.
    pub(super) const fn since(mut self, version: i16) -> Self {
        self.since = version;
        self
    }

    /// Last version that has it.
    pub(super) const fn until(mut self, version: i16) -> Self {
        self.until = version;
        self
    }

    /// May be null.
    pub(super) const fn nullable(self) -> Self {
        self.nullable_since(0)
    }

    /// May be null from this version on.
    pub(super) const fn nullable_since(mut self, version: i16) -> Self {
        self.nullable_since = version;
        self
    }

    /// A tagged field (KIP-482), of flexible versions only.
    pub(super) const fn tag(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    pub(super) fn is_in(&self, version: i16) -> bool {
        (self.since..=self.until).contains(&version)
    }

    pub(super) fn may_be_null(&self, version: i16) -> bool {
        version >= self.nullable_since
    }
}

/// Bytes of a struct of these fields in memory: all of them, for `kafka-protocol` has one type for all versions, each as
/// wide as its alignment can make it, and the map of unknown tagged fields.
pub(super) fn struct_bytes(fields: &[Field]) -> usize {
    let bytes = |field: &Field| match &field.kind {
        Kind::Int(width) => usize::from(*width).next_multiple_of(8),
        Kind::Text | Kind::Blob => TEXT_BYTES,
        Kind::Ints(_) | Kind::Texts | Kind::Structs(_) => size_of::<Vec<u8>>(),
        Kind::Struct(fields) => struct_bytes(fields),
    };
    fields.iter().map(bytes).sum::<usize>() + size_of::<std::collections::BTreeMap<i32, bytes::Bytes>>()
}

/// Bytes of a text or a blob in memory: a slice of the frame, none of its contents.
pub(super) const TEXT_BYTES: usize = size_of::<bytes::Bytes>();

//! An S3 model: a pure store, a server for a node, a client that implements object_store::ObjectStore.

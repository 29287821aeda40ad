//! etcd's lease, transaction and watch model: a pure store, a server for a node, a client.

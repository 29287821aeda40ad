//! Models of real Kafka clients, as state machines with real configuration keys.

//! The system under test: a Kafka-compatible agent over a coordinator and an object store.

//! Everything that is Kafka and simulation: cluster wiring, workloads, findings, the wavetank command.

//! Histories of Kafka clients and verdicts on them: pure functions, usable on anyone's history.

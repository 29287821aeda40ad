//! The `wavetank` command.
fn main() {}

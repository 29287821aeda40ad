//! The kernel network.

//! The tank: a seeded machine room with a kernel network, nodes, clocks and faults.

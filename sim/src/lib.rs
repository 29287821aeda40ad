//! The tank: a seeded machine room with a kernel network, nodes, clocks and faults.

#[cfg(not(madsim))]
compile_error!(
    "wavetank needs `--cfg madsim`, which .cargo/config.toml of this repository sets. It is missing: a RUSTFLAGS \
     variable replaces that setting (unset it, or add `--cfg madsim` to it), and so does building from outside the \
     repository (run cargo inside it)."
);

pub mod choice;
mod net;
mod tap;
pub mod trace;

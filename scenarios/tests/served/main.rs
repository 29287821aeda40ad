//! `wavetank serve` and `wavetank proxy` on real TCP: our own clients against real sockets, over loopback.

mod answers;
mod command;
mod doubt;
mod harness;
mod proxy;
mod real;
mod serve;
mod watched;

//! Reproduction: bundles of failing runs, and their replay.
//!
//! Owns what a bundle holds, its file, and the comparison of a replay with it. Draws nothing.

mod bundle;
mod compare;

pub use bundle::{Bundle, DecodeError, ReadError};
pub use compare::{Difference, Verdict, compare, replay};

//! Tests of the agreement among members. Owns the list: readable scenarios, and random schedules.

mod harness;
mod judge;
mod scenarios;
mod schedules;
mod speed;

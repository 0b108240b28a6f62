//! The controller: it decides who leads which partition, where replicas lie, and what topics and settings there are.
//!
//! ```text
//!   Command ──► plan (pure: state + command = Plan, or a refusal) ──► one multi at the coordinator ──► commit (pure)
//!                                                                                                        │
//!             deltas, to every broker (cluster) ◄────────────────────────────────────────────────────────┘
//! ```
//! One broker at a time is controller. Commands are planned and written one after the other, each write in one multi
//! that checks `/controller_epoch` and the version of every node it changes: a controller that was replaced, or whose
//! idea of a node is old, changes nothing (I33, I35). The coordinator's tree is the truth; what is kept here is a copy.
//!
//! `command`, `plan`: what goes in and comes out. `layout`: the nodes and their contents; `load`: how they are read.
//! `core`: the controller's state, and who plans which command; the commands are in files of their own, `election` has
//! the rules for one partition, `unproven` asks for logs where those cannot decide, `placement` those for where replicas lie, `draft` puts a plan together. Never touches a
//! clock, a socket or the coordinator: that is `cluster`.

mod alter;
mod brokers;
pub mod command;
mod configs;
pub mod core;
mod deletion;
mod draft;
mod elect;
mod election;
mod grow;
pub mod layout;
pub mod load;
mod note;
mod placement;
pub mod plan;
mod reassign;
pub mod settings;
#[cfg(test)]
mod tests;
mod topics;
mod unproven;

pub use self::core::Controller;
pub use load::LoadedNode;
pub use settings::ControllerSettings;
pub use unproven::{LogAnswer, LogEnd, LogPlace, LogQuestion};

pub use command::{
    Command, ConfigEdit, ConfigOperation, ControllerError, ElectionKind, IsrProposal, Outcome,
};
pub use plan::{LoadedState, LoadedTopic, Plan, Write};

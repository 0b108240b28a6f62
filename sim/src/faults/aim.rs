//! Machines that are known by what they do at the moment a fault strikes. Owns the choice among those that do it; who does
//! what is the driver's to know.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerRole {
    /// A broker that leads a partition.
    Leader,
    /// A broker that follows the leader of a partition.
    Follower,
    /// The broker that is controller.
    Controller,
    /// The member of the ensemble that leads it.
    CoordinatorLeader,
    /// Any server that runs.
    Any,
}

impl ServerRole {
    /// All of them.
    pub const ALL: &'static [ServerRole] = &[
        ServerRole::Leader,
        ServerRole::Follower,
        ServerRole::Controller,
        ServerRole::CoordinatorLeader,
        ServerRole::Any,
    ];

    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            ServerRole::Leader => "leader",
            ServerRole::Follower => "follower",
            ServerRole::Controller => "controller",
            ServerRole::CoordinatorLeader => "coordinator-leader",
            ServerRole::Any => "any",
        }
    }

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<ServerRole> {
        ServerRole::ALL.iter().copied().find(|role| role.name() == name)
    }
}

impl fmt::Display for ServerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A machine that is found when the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aim {
    /// What it does then.
    pub role: ServerRole,
    /// Decides which, where several do.
    pub pick: u64,
}

impl Aim {
    /// The one of these that it is; nothing where there is none.
    pub fn choose(self, candidates: &[u32]) -> Option<u32> {
        let count = u64::try_from(candidates.len()).ok().filter(|count| *count > 0)?;
        Some(candidates[(self.pick % count) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_named_as_in_scenarios() {
        for role in ServerRole::ALL {
            assert_eq!(ServerRole::from_name(role.name()), Some(*role));
            let text = serde_json::to_string(role).expect("a role is plain data");
            assert_eq!(text, format!("\"{}\"", role.name()));
        }
        assert_eq!(ServerRole::from_name("king"), None);
    }

    #[test]
    fn the_pick_decides_among_several() {
        let aim = |pick| Aim { role: ServerRole::Leader, pick };
        assert_eq!(aim(7).choose(&[2, 4, 5]), Some(4));
        assert_eq!(aim(u64::MAX).choose(&[2]), Some(2));
        assert_eq!(aim(0).choose(&[]), None);
    }
}

//! Where faults strike, as a scenario says it: machines by name, by role, or all of a kind. Owns the rules for that.

use super::{
    check::{Checked, Checker},
    error::suggestion,
    model::Step,
};
use crate::faults::{FaultKind, Machines, Place, ServerRole, Target};
use std::ops::Range;

impl Checker<'_> {
    /// Where a step of the script strikes.
    pub(super) fn place(&self, step: &Step, kind: FaultKind) -> Checked<Place> {
        match (&step.node, &step.machines) {
            (Some(node), None) => {
                if let Some(role) = ServerRole::from_name(&node.get_ref().0) {
                    self.role(node.span(), role, kind)?;
                    return Ok(Place::Role(role));
                }
                self.named(node.span(), &node.get_ref().0).map(Place::Machine)
            }
            (None, Some(machines)) => {
                if self.machines().of(*machines.get_ref()).is_empty() {
                    return self.fail(machines.span(), "this scenario has no such machines", None);
                }
                self.is_single(machines.span(), kind)?;
                Ok(Place::All(*machines.get_ref()))
            }
            (Some(node), Some(_)) => {
                let hint = "keep `node` or `machines`".to_string();
                self.fail(node.span(), "the machine is given twice", Some(hint))
            }
            (None, None) => {
                let hint = "write node = 0, node = \"leader\" or machines = \"all\"".to_string();
                self.fail(step.fault.span(), "nothing says where this step strikes", Some(hint))
            }
        }
    }

    fn named(&self, span: Range<usize>, name: &str) -> Checked<u32> {
        let machines = self.machines();
        if let Some(node) = machines.named(name) {
            return Ok(node);
        }
        let roles: Vec<&str> = ServerRole::ALL.iter().map(|role| role.name()).collect();
        let hint = match machines {
            _ if super::error::nearest(name, roles.iter().copied()).is_some() => {
                suggestion(name, &roles, "roles")
            }
            Machines { brokers: 1, members: 0 } => "the only broker is node 0".to_string(),
            Machines { members: 0, brokers } => format!("brokers are nodes 0 to {}", brokers - 1),
            _ => {
                let names: Vec<String> = (0..machines.count()).map(|node| machines.name(node)).collect();
                format!("machines in every run: {}", names.join(", "))
            }
        };
        self.fail(span, format!("there is no node {name}"), Some(hint))
    }

    /// A role needs machines that can have it, and a kind of fault that is one fault.
    pub(super) fn role(&self, span: Range<usize>, role: ServerRole, kind: FaultKind) -> Checked {
        let of = match role {
            ServerRole::Leader | ServerRole::Follower | ServerRole::Controller => Target::Brokers,
            ServerRole::CoordinatorLeader => Target::Members,
            ServerRole::Any => Target::All,
        };
        if self.machines().of(of).is_empty() {
            return self.fail(span, format!("no machine of this scenario is ever {role}"), None);
        }
        self.is_single(span, kind)
    }

    pub(super) fn is_single(&self, span: Range<usize>, kind: FaultKind) -> Checked {
        if kind.is_single() {
            return Ok(());
        }
        let parts: Vec<&str> = kind.consists_of().iter().map(|part| part.name()).collect();
        let hint = format!("it consists of others, which can be aimed: {}", parts.join(", "));
        self.fail(span, format!("`{}` cannot be aimed", kind.name()), Some(hint))
    }
}

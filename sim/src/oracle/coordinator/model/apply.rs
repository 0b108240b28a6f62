//! What each write does, or why it does nothing, by ZooKeeper's rules and in the order in which ZooKeeper looks.

use super::{Kind, Model, Operation, access, operation::Create};
use sillon_protocol::zookeeper::{CreateMode, ErrorCode, OpCode, Stat, acl::permission, path::validate};

/// Times to live are below 2^40 milliseconds.
const MAX_TTL_MS: i64 = (1 << 40) - 1;
/// Nodes that nobody can delete.
const OWN_NODES: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

/// What one operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// A node came.
    Created(String, Stat),
    /// A node was written.
    Written(Stat),
    /// There is nothing to tell.
    Nothing,
}

/// What a write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// One operation.
    Single(Result<Done, i32>),
    /// All operations of a multi.
    All(Vec<Done>),
    /// None of a multi: what each is told, 0 before the one that failed.
    None(Vec<i32>),
    /// Nothing, because the session may not write (any more, or here).
    Refused(i32),
}

impl Outcome {
    /// The error that stopped it, or 0.
    pub fn error(&self) -> i32 {
        match self {
            Outcome::Single(Ok(_)) | Outcome::All(_) => 0,
            Outcome::Single(Err(error)) | Outcome::Refused(error) => *error,
            Outcome::None(errors) => errors.iter().copied().find(|error| *error != 0).unwrap_or(0),
        }
    }
}

type Identities<'a> = &'a [(String, String)];

fn fail<T>(code: ErrorCode) -> Result<T, i32> {
    Err(code.number())
}

impl Model {
    /// Does a write of a session that may write.
    pub(super) fn run(&mut self, session: i64, identities: Identities<'_>, operation: &Operation) -> Outcome {
        let Operation::Multi(operations) = operation else {
            let done = self.run_one(session, identities, operation);
            if done.is_err() {
                self.tree.roll_back();
            }
            return Outcome::Single(done);
        };
        let mut all = Vec::new();
        for (number, operation) in operations.iter().enumerate() {
            match self.run_one(session, identities, operation) {
                Ok(done) => all.push(done),
                Err(error) => {
                    self.tree.roll_back();
                    let mut errors = vec![0; number];
                    errors.push(error);
                    errors.resize(operations.len(), ErrorCode::RuntimeInconsistency.number());
                    return Outcome::None(errors);
                }
            }
        }
        Outcome::All(all)
    }

    fn run_one(
        &mut self,
        session: i64,
        identities: Identities<'_>,
        operation: &Operation,
    ) -> Result<Done, i32> {
        match operation {
            Operation::Create(create) => self.create(session, identities, create),
            Operation::Delete { path, version } => self.delete(identities, path, *version),
            Operation::SetData { path, data, version } => {
                self.demand(identities, path, permission::WRITE)?;
                check_version(self.tree.get(path).map(|node| node.version), *version)?;
                Ok(Done::Written(self.tree.write(path, data.as_deref()).stat()))
            }
            Operation::SetAcl { path, acl, version } => {
                if validate(path).is_err() {
                    return fail(ErrorCode::BadArguments);
                }
                let acl = access::fix(acl, identities)?;
                self.demand(identities, path, permission::ADMIN)?;
                check_version(self.tree.get(path).map(|node| node.aversion), *version)?;
                Ok(Done::Written(self.tree.write_acl(path, acl).stat()))
            }
            Operation::Check { path, version } => {
                self.demand(identities, path, permission::READ)?;
                check_version(self.tree.get(path).map(|node| node.version), *version)?;
                Ok(Done::Nothing)
            }
            Operation::Multi(_) | Operation::Other(_) => fail(ErrorCode::MarshallingError),
        }
    }

    /// The path is legal, the node is there, and it may be done.
    fn demand(&self, identities: Identities<'_>, path: &str, permission: i32) -> Result<(), i32> {
        if validate(path).is_err() {
            return fail(ErrorCode::BadArguments);
        }
        let Some(node) = self.tree.get(path) else { return fail(ErrorCode::NoNode) };
        if access::permits(&node.acl, permission, identities) { Ok(()) } else { fail(ErrorCode::NoAuth) }
    }

    fn create(&mut self, session: i64, identities: Identities<'_>, create: &Create) -> Result<Done, i32> {
        let mode = self.mode(create)?;
        let (parent, _) = match create.path.rsplit_once('/') {
            Some(split) if !create.path.contains('\0') => split,
            _ => return fail(ErrorCode::BadArguments),
        };
        let acl = access::fix(&create.acl, identities)?;
        let Some(above) = self.tree.get(parent) else { return fail(ErrorCode::NoNode) };
        if !access::permits(&above.acl, permission::CREATE, identities) {
            return fail(ErrorCode::NoAuth);
        }
        let path = match mode.is_sequential() {
            true => format!("{}{:010}", create.path, above.creates),
            false => create.path.clone(),
        };
        if validate(&path).is_err() {
            return fail(ErrorCode::BadArguments);
        }
        if self.tree.get(&path).is_some() {
            return fail(ErrorCode::NodeExists);
        }
        if matches!(above.kind, Kind::Ephemeral { .. }) {
            return fail(ErrorCode::NoChildrenForEphemerals);
        }
        let kind = match create.code {
            OpCode::CreateContainer => Kind::Container,
            OpCode::CreateTtl if mode.has_ttl() => Kind::Ttl { ttl_ms: create.ttl_ms },
            _ if mode.is_ephemeral() => Kind::Ephemeral { session },
            _ => Kind::Persistent,
        };
        let stat = self.tree.add(&path, create.data.as_deref(), acl, kind).stat();
        Ok(Done::Created(path, stat))
    }

    fn mode(&self, create: &Create) -> Result<CreateMode, i32> {
        let Some(mode) = CreateMode::from_number(create.flags) else {
            return fail(ErrorCode::BadArguments);
        };
        if mode.has_ttl() && !self.ttl_nodes {
            return fail(ErrorCode::Unimplemented);
        }
        let legal = match (mode.has_ttl(), create.code == OpCode::CreateTtl) {
            (true, true) => (1..=MAX_TTL_MS).contains(&create.ttl_ms),
            (has_ttl, asks_for_ttl) => has_ttl == asks_for_ttl,
        };
        if legal { Ok(mode) } else { fail(ErrorCode::BadArguments) }
    }

    fn delete(&mut self, identities: Identities<'_>, path: &str, version: i32) -> Result<Done, i32> {
        let parent = match path.rsplit_once('/') {
            Some((parent, _)) if !path.contains('\0') && !OWN_NODES.contains(&path) => parent,
            _ => return fail(ErrorCode::BadArguments),
        };
        let Some(above) = self.tree.get(parent) else { return fail(ErrorCode::NoNode) };
        if !access::permits(&above.acl, permission::DELETE, identities) {
            return fail(ErrorCode::NoAuth);
        }
        let Some(node) = self.tree.get(path) else { return fail(ErrorCode::NoNode) };
        check_version(Some(node.version), version)?;
        if node.children > 0 {
            return fail(ErrorCode::NotEmpty);
        }
        self.tree.remove(path);
        Ok(Done::Nothing)
    }
}

fn check_version(known: Option<i32>, demanded: i32) -> Result<(), i32> {
    if demanded == -1 || known == Some(demanded) { Ok(()) } else { fail(ErrorCode::BadVersion) }
}

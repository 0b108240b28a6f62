//! Identities and access lists. Owns their form; who may do what is the coordinator's to decide.

crate::jute! {
    /// Whom an entry of an access list is about, or who a client has proven to be.
    pub struct Identity {
        /// How it is proven: `world`, `digest`, `ip`, `super`, `auth`, `x509`.
        scheme: String,
        /// Who, in the scheme's own form.
        id: String,
    }

    /// One entry of an access list.
    pub struct Acl {
        /// What is permitted: a sum of [`permission`].
        permissions: i32,
        /// To whom.
        identity: Identity,
    }
}

impl Identity {
    /// An identity by scheme and id.
    pub fn new(scheme: impl Into<String>, id: impl Into<String>) -> Identity {
        Identity { scheme: scheme.into(), id: id.into() }
    }

    /// Everybody.
    pub fn anyone() -> Identity {
        Identity::new("world", "anyone")
    }
}

/// What an access list can permit.
pub mod permission {
    /// Reading data and children.
    pub const READ: i32 = 1;
    /// Writing data.
    pub const WRITE: i32 = 2;
    /// Creating children.
    pub const CREATE: i32 = 4;
    /// Deleting children.
    pub const DELETE: i32 = 8;
    /// Changing the access list.
    pub const ADMIN: i32 = 16;
    /// Everything.
    pub const ALL: i32 = 31;
}

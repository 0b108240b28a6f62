//! Which operation a request asks for. Owns the numbers, from `ZooDefs.OpCode` of ZooKeeper 3.8.

macro_rules! op_codes {
    ($($(#[$meta:meta])* $name:ident = $number:literal,)*) => {
        /// An operation of the client protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OpCode {
            $($(#[$meta])* $name,)*
        }

        impl OpCode {
            /// All of them.
            pub const ALL: &'static [OpCode] = &[$(OpCode::$name,)*];

            /// The number on the wire.
            pub const fn number(self) -> i32 {
                match self { $(OpCode::$name => $number,)* }
            }

            /// The operation of a number.
            pub const fn from_number(number: i32) -> Option<OpCode> {
                match number { $($number => Some(OpCode::$name),)* _ => None }
            }
        }
    };
}

op_codes! {
    /// A watch event, from server to client only.
    Notification = 0,
    /// Creates a node; answers its path.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Tells whether a node exists.
    Exists = 3,
    /// Reads a node.
    GetData = 4,
    /// Writes a node.
    SetData = 5,
    /// Reads a node's access list.
    GetAcl = 6,
    /// Writes a node's access list.
    SetAcl = 7,
    /// Lists a node's children.
    GetChildren = 8,
    /// Waits until the server has caught up with the leader.
    Sync = 9,
    /// Keeps the session alive.
    Ping = 11,
    /// Lists a node's children, with its stat.
    GetChildren2 = 12,
    /// Checks a node's version, in a multi.
    Check = 13,
    /// Several writes that happen together or not at all.
    Multi = 14,
    /// Creates a node; answers its path and stat.
    Create2 = 15,
    /// Changes the ensemble's members.
    Reconfig = 16,
    /// Asks whether a watch is set.
    CheckWatches = 17,
    /// Removes watches.
    RemoveWatches = 18,
    /// Creates a container.
    CreateContainer = 19,
    /// Deletes an empty container; the server's own.
    DeleteContainer = 20,
    /// Creates a node that goes once nobody has touched it for some time.
    CreateTtl = 21,
    /// Several reads.
    MultiRead = 22,
    /// Proves an identity.
    Auth = 100,
    /// Sets watches again after a reconnect.
    SetWatches = 101,
    /// A step of a SASL exchange.
    Sasl = 102,
    /// Lists the session's ephemeral nodes.
    GetEphemerals = 103,
    /// Counts all nodes below a node.
    GetAllChildrenNumber = 104,
    /// Sets watches again after a reconnect, persistent ones too.
    SetWatches2 = 105,
    /// Adds a persistent watch.
    AddWatch = 106,
    /// Tells the connection's identities.
    WhoAmI = 107,
    /// Opens a session; the server's own.
    CreateSession = -10,
    /// Ends the session.
    CloseSession = -11,
    /// An operation that failed, in a multi.
    Error = -1,
}

//! Small enumerations of the protocol: kinds of nodes, of watches and of events. Owns their numbers.

macro_rules! numbered {
    ($($(#[$meta:meta])* pub enum $name:ident { $($(#[$case_meta:meta])* $case:ident = $number:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$case_meta])* $case,)* }

        impl $name {
            /// The number on the wire.
            pub const fn number(self) -> i32 {
                match self { $($name::$case => $number,)* }
            }

            /// The case of a number.
            pub const fn from_number(number: i32) -> Option<$name> {
                match number { $($number => Some($name::$case),)* _ => None }
            }
        }
    )*};
}

numbered! {
    /// What kind of node to create, as the flags of a create request say.
    pub enum CreateMode {
        /// Stays until it is deleted.
        Persistent = 0,
        /// Goes with its session.
        Ephemeral = 1,
        /// Stays; its name gets a number.
        PersistentSequential = 2,
        /// Goes with its session; its name gets a number.
        EphemeralSequential = 3,
        /// Goes some time after its last child.
        Container = 4,
        /// Goes when it has no children and was not written for some time.
        PersistentWithTtl = 5,
        /// The same; its name gets a number.
        PersistentSequentialWithTtl = 6,
    }

    /// What happened to a watched node.
    pub enum EventType {
        /// It was created.
        NodeCreated = 1,
        /// It was deleted.
        NodeDeleted = 2,
        /// It was written.
        NodeDataChanged = 3,
        /// A child was created or deleted.
        NodeChildrenChanged = 4,
    }

    /// The state of a session, as events name it.
    pub enum KeeperState {
        /// Not connected.
        Disconnected = 0,
        /// Connected.
        SyncConnected = 3,
        /// An identity was not proven.
        AuthFailed = 4,
        /// Connected to a server that only reads.
        ConnectedReadOnly = 5,
        /// Gone.
        Expired = -112,
        /// Ended by the client.
        Closed = 7,
    }

    /// Which watches to remove or to ask for.
    pub enum WatcherType {
        /// Those on children.
        Children = 1,
        /// Those on data and existence.
        Data = 2,
        /// All.
        Any = 3,
    }

    /// What kind of watch stays after it fired.
    pub enum AddWatchMode {
        /// For the node and its children's names.
        Persistent = 0,
        /// For the node and everything below it.
        PersistentRecursive = 1,
    }
}

impl CreateMode {
    /// Whether the node goes with its session.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, CreateMode::Ephemeral | CreateMode::EphemeralSequential)
    }

    /// Whether the name gets a number.
    pub const fn is_sequential(self) -> bool {
        matches!(
            self,
            CreateMode::PersistentSequential
                | CreateMode::EphemeralSequential
                | CreateMode::PersistentSequentialWithTtl
        )
    }

    /// Whether a time to live belongs to it.
    pub const fn has_ttl(self) -> bool {
        matches!(self, CreateMode::PersistentWithTtl | CreateMode::PersistentSequentialWithTtl)
    }
}

//! The four-letter words of ZooKeeper: what operators type into a client's port. Owns their names.

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident = $text:literal,)*) => {
        /// A question of four letters, sent in place of a handshake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FourLetterWord {
            $($(#[$meta])* $name,)*
        }

        impl FourLetterWord {
            /// All of them.
            pub const ALL: &'static [FourLetterWord] = &[$(FourLetterWord::$name,)*];

            /// The word as it is typed.
            pub const fn text(self) -> &'static str {
                match self { $(FourLetterWord::$name => $text,)* }
            }
        }
    };
}

words! {
    /// The configuration.
    Conf = "conf",
    /// Every connection.
    Cons = "cons",
    /// Resets every connection's counts.
    Crst = "crst",
    /// Sessions and ephemeral nodes.
    Dump = "dump",
    /// The server's surroundings.
    Envi = "envi",
    /// Whether the server only reads.
    Isro = "isro",
    /// Everything that is measured.
    Mntr = "mntr",
    /// Whether the server runs.
    Ruok = "ruok",
    /// Resets the counts.
    Srst = "srst",
    /// The server, in short.
    Srvr = "srvr",
    /// The server and its connections, in short.
    Stat = "stat",
    /// Watches by connection.
    Wchc = "wchc",
    /// Watches by path.
    Wchp = "wchp",
    /// Watches, counted.
    Wchs = "wchs",
}

impl FourLetterWord {
    /// The word that four bytes are.
    pub fn from_bytes(bytes: [u8; 4]) -> Option<FourLetterWord> {
        FourLetterWord::ALL.iter().copied().find(|word| word.text().as_bytes() == bytes)
    }
}

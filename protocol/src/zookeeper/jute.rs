//! Jute, ZooKeeper's serialisation: big-endian numbers, lengths of four bytes, -1 for what is missing.
//!
//! Owns the reader and the [`jute!`](crate::jute) macro from which records are made. Never allocates by a length that
//! was not checked against the bytes that are there.

/// Bytes that are no such record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JuteError {
    /// The record goes on after the last byte.
    #[error("the record needs {needed} bytes more, {left} are left")]
    Short {
        /// How many bytes the next value needs.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// A length that is negative, and not -1.
    #[error("a length of {0} is impossible")]
    Length(i32),
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
}

/// Reads values from bytes, in order.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Where there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], JuteError> {
        let (head, tail) = self
            .bytes
            .split_at_checked(count)
            .ok_or(JuteError::Short { needed: count, left: self.bytes.len() })?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], JuteError> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many bytes as were asked for"))
    }

    /// A length, or `None` for -1.
    fn length(&mut self) -> Result<Option<usize>, JuteError> {
        match i32::from_be_bytes(self.array()?) {
            -1 => Ok(None),
            length => usize::try_from(length).map(Some).map_err(|_| JuteError::Length(length)),
        }
    }
}

/// A value that jute can carry.
pub trait Jute<'a>: Sized {
    /// The fewest bytes it can take, by which lists are bounded.
    const MINIMUM_SIZE: usize;

    /// Reads it.
    ///
    /// # Errors
    /// Bytes that are no such value.
    fn read(reader: &mut Reader<'a>) -> Result<Self, JuteError>;

    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);

    /// It alone, as bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Jute<'_> for $type {
            const MINIMUM_SIZE: usize = size_of::<$type>();
            #[inline]
            fn read(reader: &mut Reader<'_>) -> Result<Self, JuteError> {
                Ok(<$type>::from_be_bytes(reader.array()?))
            }
            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}
numbers!(i32, i64);

impl Jute<'_> for bool {
    const MINIMUM_SIZE: usize = 1;
    fn read(reader: &mut Reader<'_>) -> Result<Self, JuteError> {
        Ok(reader.array::<1>()? != [0])
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    let length = i32::try_from(length).expect("nothing of more than 2 GiB is ever written");
    length.write(out);
}

/// A buffer; `None` is null, which ZooKeeper keeps apart from an empty one.
impl<'a> Jute<'a> for Option<&'a [u8]> {
    const MINIMUM_SIZE: usize = 4;
    fn read(reader: &mut Reader<'a>) -> Result<Self, JuteError> {
        reader.length()?.map(|length| reader.take(length)).transpose()
    }
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            None => (-1i32).write(out),
            Some(bytes) => {
                write_length(bytes.len(), out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// A string. Null reads as the empty one.
impl<'a> Jute<'a> for &'a str {
    const MINIMUM_SIZE: usize = 4;
    fn read(reader: &mut Reader<'a>) -> Result<Self, JuteError> {
        let bytes = Option::<&[u8]>::read(reader)?.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| JuteError::Utf8)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_length(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }
}

impl Jute<'_> for String {
    const MINIMUM_SIZE: usize = 4;
    fn read(reader: &mut Reader<'_>) -> Result<Self, JuteError> {
        <&str>::read(reader).map(str::to_owned)
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.as_str().write(out);
    }
}

/// A list. Null reads as the empty one.
impl<'a, T: Jute<'a>> Jute<'a> for Vec<T> {
    const MINIMUM_SIZE: usize = 4;
    fn read(reader: &mut Reader<'a>) -> Result<Self, JuteError> {
        let count = reader.length()?.unwrap_or(0);
        let needed = count.saturating_mul(T::MINIMUM_SIZE);
        if needed > reader.bytes.len() {
            return Err(JuteError::Short { needed, left: reader.bytes.len() });
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(T::read(reader)?);
        }
        Ok(list)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_length(self.len(), out);
        for value in self {
            value.write(out);
        }
    }
}

/// Declares records: structures whose fields follow each other on the wire.
///
/// ```
/// sillon_protocol::jute! {
///     /// A record that borrows from what it was read from.
///     pub struct Example<'a> {
///         /// A path.
///         path: &'a str,
///         /// A number.
///         version: i32,
///     }
/// }
/// ```
#[macro_export]
macro_rules! jute {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        $crate::__jute_impl! { $name [$($life)?] $($field: $type,)* }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __jute_impl {
    ($name:ident [$life:lifetime] $($field:ident: $type:ty,)*) => {
        impl<$life> $crate::zookeeper::Jute<$life> for $name<$life> {
            $crate::__jute_body! { $life $($field: $type,)* }
        }
    };
    ($name:ident [] $($field:ident: $type:ty,)*) => {
        impl<'wire> $crate::zookeeper::Jute<'wire> for $name {
            $crate::__jute_body! { 'wire $($field: $type,)* }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __jute_body {
    ($life:lifetime $($field:ident: $type:ty,)*) => {
        const MINIMUM_SIZE: usize = 0 $(+ <$type as $crate::zookeeper::Jute<$life>>::MINIMUM_SIZE)*;

        #[allow(unused_variables)] // A record without fields reads nothing.
        fn read(
            reader: &mut $crate::zookeeper::Reader<$life>,
        ) -> ::std::result::Result<Self, $crate::zookeeper::JuteError> {
            Ok(Self { $($field: <$type as $crate::zookeeper::Jute<$life>>::read(reader)?,)* })
        }

        #[allow(unused_variables)] // A record without fields writes nothing.
        fn write(&self, out: &mut ::std::vec::Vec<u8>) {
            $($crate::zookeeper::Jute::write(&self.$field, out);)*
        }
    };
}

//! The declarative schema: one macro from which structures, codecs and random values are made.
//! It owns the order of fields, versions, nullability and tags; primitive values belong to the
//! encoder and the decoder.

/// Declares messages and the structures nested in them, close to Kafka's JSON schemas.
///
/// ```
/// sillon_protocol::schema! {
///     /// A structure with versions is a whole message. Flexible versions have compact lengths and tags.
///     pub struct ExampleRequest (versions 1..=4, flexible 3..) {
///         /// In every version. An omitted default is the type's own: 0, false, "", empty, null.
///         timeout_ms: i32 = 30_000;
///         /// `None` is null on the wire, here only from version 2 on.
///         topics: Option<Vec<ExampleTopic>>, nullable 2..;
///         /// Only in versions up to 2. Encoding in others fails unless the value is the default ...
///         replica_id: i32 = -1, versions ..=2;
///         /// ... or the field may be dropped silently.
///         rack: String, versions 4.., ignorable true;
///         /// A tagged field, written only if it differs from its default.
///         epoch: i64 = -1, versions 3.., tag 0;
///     }
///
///     /// A structure without versions is nested in a message and follows the message's version.
///     pub struct ExampleTopic {
///         /// Topic name.
///         name: String;
///     }
/// }
/// ```
///
/// Each field reads `name: Type = default, versions range, nullable range, tag number, ignorable true;`
/// where all but name and type are optional but keep this order.
#[macro_export]
macro_rules! schema {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident $((versions $versions:expr, flexible $flexible:expr))? {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty
                    $(= $default:expr)?
                    $(, versions $field_versions:expr)?
                    $(, nullable $nullable:expr)?
                    $(, tag $tag:literal)?
                    $(, ignorable $ignorable:literal)?;
            )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        #[allow(clippy::derivable_impls)] // Some defaults are the types' own, others are not.
        impl ::std::default::Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::__either!([$($default)?] ::std::default::Default::default()),)*
                }
            }
        }

        impl $crate::wire::Field for $name {
            const MINIMUM_SIZE: usize = 0 $(
                + $crate::__minimum_size!($type, [$($field_versions)?] [$($tag)?])
            )*;

            #[allow(unused_mut)] // A structure without tagged fields never changes it.
            fn encode(
                &self,
                format: $crate::wire::Format,
                encoder: &mut $crate::wire::Encoder,
            ) -> ::std::result::Result<(), $crate::wire::EncodeError> {
                let mut tagged_fields = 0u32;
                $(
                    if !$crate::wire::holds($crate::__either!([$($field_versions)?] ..), format.version) {
                        let ignorable = $crate::__either!([$($ignorable)?] false);
                        let default: $type =
                            $crate::__either!([$($default)?] ::std::default::Default::default());
                        if !ignorable && self.$field != default {
                            return Err($crate::wire::EncodeError::NotExpressible {
                                message: stringify!($name),
                                field: stringify!($field),
                                version: format.version,
                            });
                        }
                    } else {
                        $crate::__encode!([$($tag)?] $type, [$($default)?] [$($nullable)?]
                            self.$field, ($name $field), format, encoder, tagged_fields);
                    }
                )*
                if format.flexible {
                    encoder.put_unsigned_varint(tagged_fields);
                    $($crate::__encode_tagged!([$($tag)?] $type, [$($default)?] [$($field_versions)?]
                        self.$field, format, encoder);)*
                }
                Ok(())
            }

            #[allow(unused_mut, unused_variables)] // A structure without fields in this version reads nothing.
            fn decode(
                format: $crate::wire::Format,
                decoder: &mut $crate::wire::Decoder<'_>,
            ) -> ::std::result::Result<Self, $crate::wire::DecodeError> {
                let mut message = Self::default();
                $($crate::__decode!([$($tag)?] [$($field_versions)?] [$($nullable)?]
                    message.$field, $field, format, decoder);)*
                if format.flexible {
                    for _ in 0..decoder.get_unsigned_varint()? {
                        let tag = decoder.get_unsigned_varint()?;
                        let mut tagged_field = decoder.get_tagged_field()?;
                        $($crate::__decode_tagged!([$($tag)?] [$($field_versions)?]
                            message.$field, tag, format, tagged_field);)*
                    }
                }
                Ok(message)
            }
        }

        $crate::__arbitrary! { $name {
            $($field [$($field_versions)?] [$($nullable)?])*
        }}

        $(
            impl $crate::wire::Message for $name {
                const VERSIONS: ::std::ops::RangeInclusive<i16> = $versions;

                fn is_flexible(version: i16) -> bool {
                    $crate::wire::holds($flexible, version)
                }

                fn encode(
                    &self,
                    version: i16,
                    encoder: &mut $crate::wire::Encoder,
                ) -> ::std::result::Result<(), $crate::wire::EncodeError> {
                    if !Self::VERSIONS.contains(&version) {
                        let message = stringify!($name);
                        return Err($crate::wire::EncodeError::UnsupportedVersion { message, version });
                    }
                    let format = $crate::wire::Format { version, flexible: Self::is_flexible(version) };
                    $crate::wire::Field::encode(self, format, encoder)
                }

                fn decode(
                    version: i16,
                    decoder: &mut $crate::wire::Decoder<'_>,
                ) -> ::std::result::Result<Self, $crate::wire::DecodeError> {
                    if !Self::VERSIONS.contains(&version) {
                        let message = stringify!($name);
                        return Err($crate::wire::DecodeError::UnsupportedVersion { message, version });
                    }
                    let format = $crate::wire::Format { version, flexible: Self::is_flexible(version) };
                    $crate::wire::Field::decode(format, decoder)
                }
            }
        )?
    )*};
}

/// Lets `Option` of a schema's structure stand in a schema: one byte, -1 for null, then the structure.
#[macro_export]
macro_rules! nullable_structures {
    ($($name:ident),*) => {$(
        impl $crate::wire::Field for Option<$name> {
            const MINIMUM_SIZE: usize = 1;

            fn encode(
                &self,
                format: $crate::wire::Format,
                encoder: &mut $crate::wire::Encoder,
            ) -> ::std::result::Result<(), $crate::wire::EncodeError> {
                match self {
                    None => encoder.put_i8(-1),
                    Some(structure) => {
                        encoder.put_i8(1);
                        $crate::wire::Field::encode(structure, format, encoder)?;
                    }
                }
                Ok(())
            }

            fn decode(
                format: $crate::wire::Format,
                decoder: &mut $crate::wire::Decoder<'_>,
            ) -> ::std::result::Result<Self, $crate::wire::DecodeError> {
                match decoder.get_i8()? {
                    ..0 => Ok(None),
                    0.. => $crate::wire::Field::decode(format, decoder).map(Some),
                }
            }

            fn is_null(&self) -> bool {
                self.is_none()
            }
        }
    )*};
}

/// The first expression if there is one, else the second.
#[doc(hidden)]
#[macro_export]
macro_rules! __either {
    ([] $fallback:expr) => {
        $fallback
    };
    ([$given:expr] $fallback:expr) => {
        $given
    };
}

/// What a field adds to the least size of its structure: nothing if it may be absent.
#[doc(hidden)]
#[macro_export]
macro_rules! __minimum_size {
    ($type:ty, [] []) => {
        <$type as $crate::wire::Field>::MINIMUM_SIZE
    };
    ($type:ty, [$($versions:expr)?] [$($tag:literal)?]) => {
        0
    };
}

/// Encodes a field in its place, or counts it if it is a tagged field that must be written.
#[doc(hidden)]
#[macro_export]
macro_rules! __encode {
    ([] $type:ty, [$($default:expr)?] [$($nullable:expr)?] $value:expr, ($name:ident $field:ident),
        $format:ident, $encoder:ident, $tagged_fields:ident) => {
        if $crate::wire::Field::is_null(&$value) && !$crate::wire::holds($crate::__either!([$($nullable)?] ..), $format.version) {
            return Err($crate::wire::EncodeError::UnexpectedNull {
                message: stringify!($name),
                field: stringify!($field),
                version: $format.version,
            });
        }
        $crate::wire::Field::encode(&$value, $format, $encoder)?;
    };
    ([$tag:literal] $type:ty, [$($default:expr)?] [$($nullable:expr)?] $value:expr, $names:tt,
        $format:ident, $encoder:ident, $tagged_fields:ident) => {
        let default: $type = $crate::__either!([$($default)?] ::std::default::Default::default());
        if $value != default {
            $tagged_fields += 1;
        }
    };
}

/// Encodes a tagged field that differs from its default.
#[doc(hidden)]
#[macro_export]
macro_rules! __encode_tagged {
    ([] $($field:tt)*) => {};
    ([$tag:literal] $type:ty, [$($default:expr)?] [$($versions:expr)?] $value:expr,
        $format:ident, $encoder:ident) => {
        if $crate::wire::holds($crate::__either!([$($versions)?] ..), $format.version) {
            let default: $type = $crate::__either!([$($default)?] ::std::default::Default::default());
            if $value != default {
                $encoder.put_tagged_field($tag, $format, &$value)?;
            }
        }
    };
}

/// Decodes a field in its place.
#[doc(hidden)]
#[macro_export]
macro_rules! __decode {
    ([] [$($versions:expr)?] [$($nullable:expr)?] $value:expr, $field:ident,
        $format:ident, $decoder:ident) => {
        if $crate::wire::holds($crate::__either!([$($versions)?] ..), $format.version) {
            $value = $crate::wire::Field::decode($format, $decoder)?;
            if $crate::wire::Field::is_null(&$value)
                && !$crate::wire::holds($crate::__either!([$($nullable)?] ..), $format.version)
            {
                return Err($crate::wire::DecodeError::UnexpectedNull { field: stringify!($field) });
            }
        }
    };
    ([$tag:literal] $($field:tt)*) => {};
}

/// Decodes a tagged field if `$tag` is its tag.
#[doc(hidden)]
#[macro_export]
macro_rules! __decode_tagged {
    ([] $($field:tt)*) => {};
    ([$expected:literal] [$($versions:expr)?] $value:expr, $tag:ident, $format:ident, $decoder:ident) => {
        if $tag == $expected && $crate::wire::holds($crate::__either!([$($versions)?] ..), $format.version) {
            $value = $crate::wire::Field::decode($format, &mut $decoder)?;
            $decoder.finish_tagged_field()?;
            continue;
        }
    };
}

/// Random values of a structure that some version can carry.
#[cfg(any(test, feature = "arbitrary"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __arbitrary {
    ($name:ident { $($field:ident [$($versions:expr)?] [$($nullable:expr)?])* }) => {
        impl $crate::wire::arbitrary::Arbitrary for $name {
            fn arbitrary(
                format: $crate::wire::Format,
                _: bool,
                random: &mut $crate::wire::arbitrary::Random,
            ) -> Self {
                let mut message = Self::default();
                $(
                    if $crate::wire::holds($crate::__either!([$($versions)?] ..), format.version) {
                        let nullable =
                            $crate::wire::holds($crate::__either!([$($nullable)?] ..), format.version);
                        // Defaults matter: tagged fields that have them are not written.
                        let may_stay = nullable || !$crate::wire::Field::is_null(&message.$field);
                        if !(may_stay && random.one_in(6)) {
                            message.$field =
                                $crate::wire::arbitrary::Arbitrary::arbitrary(format, nullable, random);
                        }
                    }
                )*
                message
            }
        }
    };
}

/// Without the feature there are no random values.
#[cfg(not(any(test, feature = "arbitrary")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __arbitrary {
    ($($tokens:tt)*) => {};
}

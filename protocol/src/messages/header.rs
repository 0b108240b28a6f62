//! The headers in front of every request and response. The request header is the first that is read
//! from a stranger: it is decoded in steps, so that whatever was understood can still be answered.

use bytes::Bytes;

use super::{request_header_version, supported_versions};
use crate::ApiKey;
use crate::wire::{DecodeError, Decoder, EncodeError, Encoder, Format};

/// Strings in headers are classic in every version: a broker must be able to read the client's name
/// before it knows whether it speaks the version.
const CLASSIC: Format = Format { version: 1, flexible: false };

/// What precedes every request (versions 1 and 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API asked for.
    pub api_key: ApiKey,
    /// Version of the request's body.
    pub api_version: i16,
    /// What the response must repeat.
    pub correlation_id: i32,
    /// A name that the client gave itself.
    pub client_id: Option<String>,
}

impl RequestHeader {
    /// Appends a header of `header_version` from its parts.
    ///
    /// # Errors
    /// A client id longer than 32,767 bytes.
    pub fn encode_parts(
        encoder: &mut Encoder,
        header_version: i16,
        api_key: i16,
        api_version: i16,
        correlation_id: i32,
        client_id: Option<&str>,
    ) -> Result<(), EncodeError> {
        encoder.put_i16(api_key);
        encoder.put_i16(api_version);
        encoder.put_i32(correlation_id);
        encoder.put_string(CLASSIC, client_id)?;
        if header_version >= 2 {
            encoder.put_unsigned_varint(0);
        }
        Ok(())
    }
}

/// Why a request header cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestHeaderError {
    /// The bytes are no header. Nothing can be answered: close the connection.
    #[error("malformed request header: {0}")]
    Malformed(#[from] DecodeError),
    /// An API that does not exist or has no messages here. Kafka closes the connection.
    #[error("unknown api key {api_key} (version {api_version}, correlation id {correlation_id})")]
    UnknownApi {
        /// The key as on the wire.
        api_key: i16,
        /// The version as on the wire.
        api_version: i16,
        /// The correlation id as on the wire.
        correlation_id: i32,
    },
    /// A version that is not known. To ApiVersions, answer in version 0 with UNSUPPORTED_VERSION and the
    /// supported versions (KIP-511); to others, Kafka closes the connection.
    #[error("{api_key} has no version {api_version} (correlation id {correlation_id})")]
    UnsupportedVersion {
        /// The API.
        api_key: ApiKey,
        /// The version as on the wire.
        api_version: i16,
        /// The correlation id as on the wire.
        correlation_id: i32,
    },
}

/// Reads the header of a request; the decoder that comes back stands at the first byte of the body.
///
/// # Errors
/// See [`RequestHeaderError`]: as much as was understood is in the error.
pub fn decode_request_header(frame: &Bytes) -> Result<(RequestHeader, Decoder<'_>), RequestHeaderError> {
    let mut decoder = Decoder::new(frame);
    let code = decoder.get_i16()?;
    let api_version = decoder.get_i16()?;
    let correlation_id = decoder.get_i32()?;
    let unknown = RequestHeaderError::UnknownApi { api_key: code, api_version, correlation_id };
    let api_key = ApiKey::from_code(code).ok_or_else(|| unknown.clone())?;
    let header_version = match api_key {
        ApiKey::Private(_) => 2,
        _ => {
            let versions = supported_versions(api_key).ok_or(unknown)?;
            if !versions.contains(&api_version) {
                return Err(RequestHeaderError::UnsupportedVersion { api_key, api_version, correlation_id });
            }
            request_header_version(api_key, api_version)
        }
    };
    let client_id = decoder.get_string(CLASSIC)?;
    if header_version >= 2 {
        decoder.skip_tagged_fields()?;
    }
    Ok((RequestHeader { api_key, api_version, correlation_id, client_id }, decoder))
}

/// What precedes every response (versions 0 and 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// Repeated from the request.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Appends the header in `header_version`, 0 or 1.
    pub fn encode(self, header_version: i16, encoder: &mut Encoder) {
        encoder.put_i32(self.correlation_id);
        if header_version >= 1 {
            encoder.put_unsigned_varint(0);
        }
    }

    /// Reads the header in `header_version`, 0 or 1.
    ///
    /// # Errors
    /// Bytes that are no such header.
    pub fn decode(header_version: i16, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let correlation_id = decoder.get_i32()?;
        if header_version >= 1 {
            decoder.skip_tagged_fields()?;
        }
        Ok(Self { correlation_id })
    }
}

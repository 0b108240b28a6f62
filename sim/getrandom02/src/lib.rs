//! Stand-in for getrandom 0.2. Owns one function; keeps no state.
//!
//! The real crate makes a raw system call, which nothing can override, so that what draws from rand 0.8 would differ
//! from run to run in a simulation. This one calls libc's `getrandom`, a symbol that madsim overrides inside a
//! simulation; elsewhere it is the same system call. Newer versions of getrandom do so by themselves.

use core::{fmt, num::NonZeroU32};

const EIO: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// What went wrong: a code of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(NonZeroU32);

impl Error {
    /// Codes below this are the operating system's.
    pub const INTERNAL_START: u32 = 1 << 31;
    /// Codes from this on are free for users.
    pub const CUSTOM_START: u32 = (1 << 31) + (1 << 30);
    /// There is no source of random bytes.
    pub const UNSUPPORTED: Error = Error(NonZeroU32::new(Error::INTERNAL_START).unwrap());

    /// The code.
    pub const fn code(self) -> NonZeroU32 {
        self.0
    }

    /// The operating system's code, where it is one.
    pub fn raw_os_error(self) -> Option<i32> {
        i32::try_from(self.0.get()).ok()
    }
}

impl From<NonZeroU32> for Error {
    fn from(code: NonZeroU32) -> Error {
        Error(code)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "getrandom failed with code {}", self.0)
    }
}

impl std::error::Error for Error {}

/// Fills `bytes` with random bytes.
///
/// # Errors
/// Those of getrandom(2), but for an interruption, after which it goes on.
pub fn getrandom(mut bytes: &mut [u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are those of a slice that is borrowed for the call.
        let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        match usize::try_from(filled) {
            Ok(filled) => bytes = &mut bytes[filled..],
            Err(_) => {
                let code = std::io::Error::last_os_error().raw_os_error();
                if code != Some(libc::EINTR) {
                    let code = code.and_then(|code| u32::try_from(code).ok()).and_then(NonZeroU32::new);
                    return Err(Error(code.unwrap_or(EIO)));
                }
            }
        }
    }
    Ok(())
}

//! Which paths are legal, as `PathUtils.validatePath` of ZooKeeper has it. Owns the rule, and taking paths apart.

/// A path that ZooKeeper would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is empty.
    #[error("a path is not empty")]
    Empty,
    /// It does not begin with a slash.
    #[error("a path begins with /")]
    Relative,
    /// It ends with a slash.
    #[error("a path does not end with /")]
    TrailingSlash,
    /// Two slashes follow each other.
    #[error("a path has no empty name in it")]
    EmptyName,
    /// A name is `.` or `..`.
    #[error("a path has no . or .. in it")]
    Dots,
    /// It holds a character that is not allowed.
    #[error("the character {0:?} is not allowed in a path")]
    Character(char),
}

/// Checks a path. The root is legal.
///
/// # Errors
/// What is wrong with it.
pub fn validate(path: &str) -> Result<(), PathError> {
    let Some(first) = path.chars().next() else { return Err(PathError::Empty) };
    if first != '/' {
        return Err(PathError::Relative);
    }
    if path.len() == 1 {
        return Ok(());
    }
    if path.ends_with('/') {
        return Err(PathError::TrailingSlash);
    }
    for name in path[1..].split('/') {
        match name {
            "" => return Err(PathError::EmptyName),
            "." | ".." => return Err(PathError::Dots),
            name if name.is_ascii() && !name.bytes().any(|byte| byte < 0x20 || byte == 0x7f) => {}
            name => {
                if let Some(bad) = name.chars().find(|character| is_forbidden(*character)) {
                    return Err(PathError::Character(bad));
                }
            }
        }
    }
    Ok(())
}

/// Control characters, private use, surrogates' neighbours and specials, judged as Java's 16-bit units.
fn is_forbidden(character: char) -> bool {
    matches!(u32::from(character), 0..=0x1f | 0x7f..=0x9f | 0xe000..=0xf8ff | 0xfff0..=0xffff | 0x1_0000..)
}

/// The parent and the name of a legal path other than the root.
pub fn split(path: &str) -> Option<(&str, &str)> {
    match path.rsplit_once('/')? {
        (_, "") => None,
        ("", name) => Some(("/", name)),
        both => Some(both),
    }
}

//! How far long work has come, on standard error: only where a person looks at it, and nothing is left of it at the end.

use crate::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const LOOK: &str = "{msg} {wide_bar} {human_pos}/{human_len}, {per_sec}, {eta} left";
const LOOK_BYTES: &str = "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";

/// A bar for `total` records; hidden where standard error is no terminal, or JSON is wanted.
pub fn records(context: &Context, what: &'static str, total: u64) -> ProgressBar {
    bar(context, LOOK, what, total)
}

/// The same for `total` bytes.
pub fn bytes(context: &Context, what: &'static str, total: u64) -> ProgressBar {
    bar(context, LOOK_BYTES, what, total)
}

fn bar(context: &Context, look: &str, what: &'static str, total: u64) -> ProgressBar {
    // Where standard error is no terminal, the target hides itself.
    let target = if context.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(look).expect("the template is valid");
    ProgressBar::with_draw_target(Some(total), target).with_style(style).with_message(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for look in [LOOK, LOOK_BYTES] {
            assert!(ProgressStyle::with_template(look).is_ok(), "{look}");
        }
    }
}

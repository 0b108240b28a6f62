//! Waiting for several things at once. Owns nothing: the futures are the caller's.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

/// Runs all futures to their ends and gives their results in the order of the futures.
pub(crate) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Some(Box::pin(future)), None)).collect();
    poll_fn(|context| {
        let mut all_done = true;
        for (future, output) in &mut running {
            if let Some(unfinished) = future {
                match Pin::new(unfinished).poll(context) {
                    Poll::Ready(ready) => {
                        *output = Some(ready);
                        *future = None;
                    }
                    Poll::Pending => all_done = false,
                }
            }
        }
        if all_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().map(|(_, output)| output.expect("every future has ended")).collect()
}

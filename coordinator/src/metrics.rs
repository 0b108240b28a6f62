//! Metrics over HTTP, in Prometheus' text format. Owns the HTTP server; what is measured is the member's.

use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Bytes, header::CONTENT_TYPE, service::service_fn};
use hyper_util::rt::TokioIo;
use sillon_runtime::{BoxStream, JoinHandle, Listener, Runtime};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// The content type of Prometheus' text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long one scrape may take.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait before accepting again where accepting failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Whether a value only rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It rises.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One thing that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Its name, as ZooKeeper has it.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Whether it only rises.
    pub kind: Kind,
    /// How much it is.
    pub value: f64,
}

/// Measurements in Prometheus' text format.
pub fn prometheus_text(measurements: &[Measurement]) -> String {
    let mut text = String::new();
    for Measurement { name, help, kind, value } in measurements {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
            .expect("a string takes everything");
    }
    text
}

/// A scrape that waits for its answer.
pub(crate) type Scrape = oneshot::Sender<String>;

/// Answers `GET /metrics` until it is dropped. Each scrape goes to `scrapes`.
pub(crate) fn serve(
    runtime: &Runtime,
    listener: Box<dyn Listener>,
    scrapes: mpsc::Sender<Scrape>,
) -> JoinHandle<()> {
    runtime.spawn("metrics", accept(runtime.clone(), listener, scrapes))
}

#[derive(Default)]
struct Open(Arc<Mutex<BTreeMap<u64, JoinHandle<()>>>>);

impl Drop for Open {
    fn drop(&mut self) {
        for task in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            task.abort();
        }
    }
}

async fn accept(runtime: Runtime, listener: Box<dyn Listener>, scrapes: mpsc::Sender<Scrape>) {
    let open = Open::default();
    for number in 0u64.. {
        match listener.accept().await {
            Ok(stream) => {
                let (tasks, scrapes) = (open.0.clone(), scrapes.clone());
                let serving = connection(runtime.clone(), stream, scrapes);
                let mut running = open.0.lock().unwrap_or_else(PoisonError::into_inner);
                let task = runtime.spawn("metrics connection", async move {
                    serving.await;
                    tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
                });
                running.insert(number, task);
            }
            Err(error) => {
                tracing::warn!(address = %listener.local_addr(), %error, "cannot accept a connection for metrics");
                runtime.sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(runtime: Runtime, stream: BoxStream, scrapes: mpsc::Sender<Scrape>) {
    let peer = stream.peer_addr();
    let service = service_fn(|request| {
        let (runtime, scrapes) = (runtime.clone(), scrapes.clone());
        async move { Ok::<_, Infallible>(answer(&runtime, &request, &scrapes).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = serving.await {
        tracing::debug!(%peer, %error, "metrics connection closed");
    }
}

async fn answer<B>(
    runtime: &Runtime,
    request: &Request<B>,
    scrapes: &mpsc::Sender<Scrape>,
) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return text(StatusCode::NOT_FOUND, "metrics are at /metrics\n".to_owned());
    }
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n".to_owned());
    }
    let (sender, receiver) = oneshot::channel();
    let asked = async {
        scrapes.send(sender).await.ok()?;
        receiver.await.ok()
    };
    match runtime.timeout(SCRAPE_TIMEOUT, asked).await {
        Ok(Some(body)) => text(StatusCode::OK, body),
        _ => text(StatusCode::SERVICE_UNAVAILABLE, "the member does not answer\n".to_owned()),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let value = hyper::header::HeaderValue::from_static(TEXT_FORMAT);
    response.headers_mut().insert(CONTENT_TYPE, value);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_format() {
        let measurement = Measurement { name: "znode_count", help: "Nodes.", kind: Kind::Gauge, value: 5.0 };
        assert_eq!(
            prometheus_text(&[measurement]),
            "# HELP znode_count Nodes.\n# TYPE znode_count gauge\nznode_count 5\n"
        );
    }
}

//! On this machine's own files and clocks, with several tasks at once.

use super::*;
use sillon_runtime::tokio_backend;

fn on_disk<F: Future>(test: impl FnOnce(LogContext, PathBuf) -> F) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().to_owned();
    tokio_backend::block_on(Some(2), |runtime| {
        test(LogContext { runtime, observers: Observers::NONE }, path)
    })
    .expect("a runtime");
}

async fn open(context: &LogContext, path: &Path, config: LogConfig, opening: Opening) -> Arc<Log> {
    let partition = TopicPartition::new("topic", 0);
    Log::open(context.clone(), path.join("topic-0"), partition, TOPIC_ID, config, opening)
        .await
        .expect("opens")
}

#[test]
fn many_writers_and_readers_share_a_log() {
    on_disk(async |context, path| {
        let config = LogConfig { segment_bytes: 20_000, index_interval_bytes: 500, ..LogConfig::default() };
        let log = open(&context, &path, config.clone(), Opening::default()).await;
        let writers: Vec<_> = (0..8)
            .map(|producer| {
                let log = log.clone();
                context.runtime.spawn("writer", async move {
                    for sequence in 0..100 {
                        let batch = idempotent(producer, 0, sequence, &[&format!("{producer}:{sequence}")]);
                        let appended = log.append_as_leader(batch, EPOCH).await.expect("appended");
                        let point = log.flush(appended.next_offset).await.expect("flushed");
                        assert!(point >= appended.next_offset);
                    }
                })
            })
            .collect();
        let reader = {
            let (log, runtime) = (log.clone(), context.runtime.clone());
            context.runtime.spawn("reader", async move {
                let mut from = Offset(0);
                while from < Offset(800) {
                    let slice = log.read(from, 4000, Offset(i64::MAX), true).await.expect("readable");
                    let mut bytes = vec![0; slice.length];
                    slice.file.read_exact_at(&mut bytes, slice.position).await.expect("in the file");
                    for batch in split_views(&bytes) {
                        let batch = batch.expect("whole");
                        batch.validate_header().expect("undamaged");
                        assert_eq!(Offset(batch.base_offset()), from, "I15");
                        from = Offset(batch.next_offset());
                    }
                    runtime.sleep(std::time::Duration::from_micros(50)).await;
                }
            })
        };
        for writer in writers {
            writer.await.expect("the writer ends");
        }
        reader.await.expect("the reader ends");
        assert_eq!((log.log_end_offset(), log.recovery_point()), (Offset(800), Offset(800)));
        log.close().await.expect("closed");
    });
}

#[test]
fn a_log_is_opened_again_after_a_crash() {
    on_disk(async |context, path| {
        let config = LogConfig { segment_bytes: 3000, index_interval_bytes: 100, ..LogConfig::default() };
        let log = open(&context, &path, config.clone(), Opening::default()).await;
        for sequence in 0..100 {
            log.append_as_leader(idempotent(1, 0, sequence, &["value"]), EPOCH).await.expect("appended");
        }
        let table = log.producers_summary().await;
        let segments = log.segment_count();
        drop(log);
        let log = open(&context, &path, config.clone(), unclean(Offset(0))).await;
        assert_eq!((log.log_end_offset(), log.segment_count()), (Offset(100), segments));
        assert_eq!(log.producers_summary().await, table);
        log.close().await.expect("closed");
        let clean = Opening { clean: true, ..unclean(log.recovery_point()) };
        let log = open(&context, &path, config, clean).await;
        assert_eq!(log.producers_summary().await, table);
        let found = log.offset_for_timestamp(1_700_000_000_000, Offset(100)).await.expect("readable");
        assert_eq!(found.expect("found").offset, Offset(0));
    });
}

#[test]
fn a_directory_is_locked_against_other_processes() {
    on_disk(async |context, path| {
        let paths = [path.join("data")];
        let first = crate::log::LogDirectories::open(context.clone(), &paths).await.expect("opens");
        let second = crate::log::LogDirectories::open(context.clone(), &paths).await;
        assert!(matches!(second, Err(LogError::Locked { .. })));
        drop(first);
        crate::log::LogDirectories::open(context, &paths).await.expect("opens");
    });
}

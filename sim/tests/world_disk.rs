//! The disks of the world, as a process and as the oracle see them.

mod support;

use sillon_runtime::{File, FileLock, OpenOptions, Runtime};
use sillon_sim::world::{DiskFaults, FaultKind, NodeId, World, boot, sleep};
use std::{future::pending, io, path::Path, sync::Arc, time::Duration};
use support::{in_world, run_on, seconds};

const FILE: &str = "/data/file";

async fn open(runtime: &Runtime) -> Arc<dyn File> {
    runtime.fs().create_dir_all(Path::new("/data")).await.expect("there is room");
    runtime.fs().open(Path::new(FILE), OpenOptions::READ_WRITE_CREATE).await.expect("there is room")
}

async fn sync_names(runtime: &Runtime) {
    runtime.fs().sync_dir(Path::new("/data")).await.expect("no fault");
    runtime.fs().sync_dir(Path::new("/")).await.expect("no fault");
}

/// Adds an idle machine, and gives the runtime of its process.
fn idle(world: &Arc<World>) -> (NodeId, Runtime) {
    let node = run_on(world, &format!("m{}", world.nodes().len()), |_| pending());
    (node, world.runtime(node).expect("it runs"))
}

#[test]
fn synced_data_survives_and_unsynced_data_has_every_fate() {
    let fates = in_world(|world, notes| async move {
        for _ in 0..60 {
            let (node, runtime) = idle(&world);
            let file = open(&runtime).await;
            file.write_all_at(&[1; 8_192], 0).await.expect("no fault");
            file.sync_data().await.expect("no fault");
            sync_names(&runtime).await;
            file.write_all_at(&[2; 16_384], 4_096 * 2).await.expect("no fault");
            file.write_all_at(&[3; 100], 50).await.expect("no fault");
            let disk = world.disk(node);
            assert_eq!(disk.durable_view(FILE).expect("its name is durable"), [1; 8_192]);
            let loss = world.power_fail(node);
            let content = disk.read_file(FILE).expect("it was there");
            assert_eq!(
                disk.durable_view(FILE).as_ref(),
                Some(&content),
                "after a power failure all is durable"
            );
            assert!((8_192..=24_576).contains(&content.len()));
            assert_eq!(content[4_096..8_192], [1; 4_096], "a synced page that nobody touched");
            assert!(content[8_192..].iter().all(|byte| *byte == 0 || *byte == 2));
            let first = if content[50] == 3 { "new" } else { "old" };
            let file = &loss.files[0];
            let length = if content.len() == 8_192 {
                "old"
            } else if content.len() == 24_576 {
                "new"
            } else {
                "between"
            };
            notes.add(format!("first page {first}, length {length}, torn {}", file.torn_pages > 0));
        }
    });
    let seen: std::collections::BTreeSet<&String> = fates.iter().collect();
    for fate in ["first page new, length new, torn false", "first page old, length old, torn false"] {
        assert!(seen.iter().any(|line| *line == fate), "{fate} in {seen:?}");
    }
    assert!(seen.iter().any(|line| line.contains("between")), "{seen:?}");
    assert!(seen.iter().any(|line| line.contains("torn true")), "{seen:?}");
}

#[test]
fn a_crash_of_the_process_loses_nothing() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let file = open(&runtime).await;
        file.write_all_at(&[7; 10_000], 0).await.expect("no fault");
        world.restart(node);
        let error = file.write_at(&[1], 0).await.expect_err("the handle is of a dead process");
        assert_eq!(error.to_string(), "the process has died");
        let again = open(&world.runtime(node).expect("it runs")).await;
        assert_eq!(again.len().expect("alive"), 10_000);
        assert_eq!(world.disk(node).durable_view(FILE), None, "neither name nor bytes are durable");
    });
}

#[test]
fn data_written_during_a_sync_is_not_part_of_it() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        world.disk(node).change_faults(|faults| faults.sync_latency_us = (1_000, 1_000));
        let file = open(&runtime).await;
        sync_names(&runtime).await;
        file.write_all_at(&[1; 100], 0).await.expect("no fault");
        let syncing = {
            let file = file.clone();
            runtime.spawn("sync", async move { file.sync_data().await })
        };
        sleep(Duration::from_micros(500)).await;
        file.write_all_at(&[2; 100], 100).await.expect("no fault");
        assert_eq!(world.disk(node).durable_view(FILE).expect("named"), [0; 0]);
        syncing.await.expect("it ends").expect("no fault");
        assert_eq!(world.disk(node).durable_view(FILE).expect("named"), [1; 100]);
    });
}

/// The lesson of PostgreSQL's fsync troubles: the error is reported once, and the data is gone all the same.
#[test]
fn a_failed_sync_is_not_made_good_by_a_later_one() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let disk = world.disk(node);
        let file = open(&runtime).await;
        sync_names(&runtime).await;
        file.write_all_at(&[1; 4_096], 0).await.expect("no fault");
        file.sync_data().await.expect("no fault");
        file.write_all_at(&[2; 4_096], 4_096).await.expect("no fault");
        disk.change_faults(|faults| faults.sync_error_ppm = 1_000_000);
        let error = file.sync_data().await.expect_err("the disk fails");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        disk.change_faults(|faults| faults.sync_error_ppm = 0);
        file.write_all_at(&[3; 4_096], 8_192).await.expect("no fault");
        file.sync_data().await.expect("the next sync succeeds");
        let mut cached = vec![0; 12_288];
        file.read_exact_at(&mut cached, 0).await.expect("the cache has it");
        assert_eq!(cached[4_096..8_192], [2; 4_096]);
        let durable = disk.durable_view(FILE).expect("named");
        assert_eq!((durable[0], durable[4_096], durable[8_192], durable.len()), (1, 0, 3, 12_288));
        // A page that is written again is written whole.
        file.write_all_at(&[4; 10], 4_096).await.expect("no fault");
        file.sync_data().await.expect("no fault");
        let durable = disk.durable_view(FILE).expect("named");
        assert_eq!(durable[4_096..4_108], [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 2]);
        assert_eq!(world.fault_count(FaultKind::SyncError), 1);
    });
}

#[test]
fn lost_for_good_after_a_failed_sync_and_a_power_failure() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let disk = world.disk(node);
        let file = open(&runtime).await;
        sync_names(&runtime).await;
        file.write_all_at(&[2; 8_192], 0).await.expect("no fault");
        disk.change_faults(|faults| faults.sync_error_ppm = 1_000_000);
        file.sync_data().await.expect_err("the disk fails");
        world.power_fail(node);
        assert!(disk.read_file(FILE).expect("named").iter().all(|byte| *byte == 0));
    });
}

#[test]
fn reads_and_writes_fail_and_fall_short_as_asked() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let disk = world.disk(node);
        let file = open(&runtime).await;
        disk.change_faults(|faults| faults.write_error_ppm = 1_000_000);
        assert_eq!(file.write_at(&[1; 9], 0).await.expect_err("a fault").raw_os_error(), Some(libc::EIO));
        disk.set_faults(DiskFaults { short_write_ppm: 1_000_000, ..DiskFaults::default() });
        let written = file.write_at(&[1; 9_000], 0).await.expect("short, not failed");
        assert!((1..9_000).contains(&written), "{written}");
        assert_eq!(file.len().expect("alive"), written as u64);
        disk.set_faults(DiskFaults { read_error_ppm: 1_000_000, ..DiskFaults::default() });
        assert_eq!(file.read_at(&mut [0; 9], 0).await.expect_err("a fault").raw_os_error(), Some(libc::EIO));
        assert_eq!(file.read_at_now(&mut [0; 9], 0).expect_err("a fault").raw_os_error(), Some(libc::EIO));
        for kind in [FaultKind::WriteError, FaultKind::ShortWrite, FaultKind::ReadError] {
            assert!(world.fault_count(kind) > 0, "{kind}");
        }
    });
}

#[test]
fn a_full_disk_takes_what_fits_and_then_nothing_until_room_is_made() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let disk = world.disk(node);
        disk.change_faults(|faults| faults.capacity_bytes = Some(10_000));
        let file = open(&runtime).await;
        assert_eq!(file.write_at(&[1; 8_000], 0).await.expect("fits"), 8_000);
        assert_eq!(file.write_at(&[1; 8_000], 8_000).await.expect("a part fits"), 2_000);
        let full = file.write_at(&[1], 10_000).await.expect_err("full");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.write_at(&[2; 100], 0).await.expect("no new room needed"), 100);
        assert_eq!(file.set_len(10_001).expect_err("full").kind(), io::ErrorKind::StorageFull);
        file.set_len(5_000).expect("shorter");
        assert_eq!(disk.used_bytes(), 5_000);
        runtime.fs().remove(Path::new(FILE)).await.expect("it is there");
        assert_eq!(disk.used_bytes(), 0);
        assert_eq!(world.fault_count(FaultKind::DiskFull), 3);
    });
}

#[test]
fn rot_changes_one_stored_bit_for_good_and_spares_dirty_pages() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let disk = world.disk(node);
        let file = open(&runtime).await;
        file.write_all_at(&[0; 4_096], 0).await.expect("no fault");
        assert!(!disk.flip_bit(FILE, 0, 0), "the page is dirty");
        file.sync_data().await.expect("no fault");
        disk.change_faults(|faults| faults.bit_rot_ppm = 1_000_000);
        let mut buffer = [0; 4_096];
        file.read_exact_at(&mut buffer, 0).await.expect("no error is reported");
        assert_eq!(buffer.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        disk.set_faults(DiskFaults::default());
        let mut again = [0; 4_096];
        file.read_exact_at(&mut again, 0).await.expect("no fault");
        assert_eq!(again, buffer);
        assert!(disk.flip_bit(FILE, 9, 7));
        assert_eq!(world.fault_count(FaultKind::BitRot), 2);
    });
}

#[test]
fn a_misdirected_write_shows_after_a_power_failure() {
    in_world(|world, _| async move {
        let mut hits = 0;
        for _ in 0..10 {
            let (node, runtime) = idle(&world);
            let disk = world.disk(node);
            let file = open(&runtime).await;
            sync_names(&runtime).await;
            for page in 0..4u8 {
                file.write_all_at(&[page + 1; 4_096], u64::from(page) * 4_096).await.expect("no fault");
            }
            file.sync_data().await.expect("no fault");
            disk.change_faults(|faults| faults.misdirected_write_ppm = 1_000_000);
            file.write_all_at(&[9; 4_096], 4_096).await.expect("no fault");
            file.sync_data().await.expect("it reports success");
            assert_eq!(disk.read_file(FILE).expect("named")[4_096], 9, "the cache is right");
            world.power_fail(node);
            let content = disk.read_file(FILE).expect("named");
            let firsts: Vec<u8> = content.chunks(4_096).map(|page| page[0]).collect();
            assert_eq!(firsts[1], 2, "the intended page is as before");
            hits += usize::from(firsts.contains(&9));
        }
        assert!(hits > 4, "it mostly lands somewhere: {hits}");
        assert_eq!(world.fault_count(FaultKind::MisdirectedWrite), 10);
    });
}

#[test]
fn stalls_and_latencies_take_their_time() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let file = open(&runtime).await;
        let disk = world.disk(node);
        disk.change_faults(|faults| faults.write_latency_us = (300, 300));
        let before = runtime.now();
        file.write_all_at(&[1; 10], 0).await.expect("no fault");
        assert!((300..310).contains(&(runtime.now() - before).as_micros()));
        disk.change_faults(|faults| (faults.stall_ppm, faults.stall_ms) = (1_000_000, (700, 700)));
        let before = runtime.now();
        file.sync_data().await.expect("no fault");
        assert!((700..710).contains(&(runtime.now() - before).as_millis()));
        assert_eq!(world.fault_count(FaultKind::DiskStall), 1);
    });
}

#[test]
fn a_lock_is_held_by_one_process_and_released_with_it() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let take = async |runtime: &Runtime| -> io::Result<Box<dyn FileLock>> {
            runtime.fs().lock(Path::new("/.lock")).await
        };
        let first = take(&runtime).await.expect("nobody has it");
        assert_eq!(take(&runtime).await.err().expect("taken").kind(), io::ErrorKind::WouldBlock);
        drop(first);
        let second = take(&runtime).await.expect("released");
        world.restart(node);
        let runtime = world.runtime(node).expect("it runs");
        let third = take(&runtime).await.expect("its holder is dead");
        drop(second);
        assert!(take(&runtime).await.is_err(), "a dead process releases nothing of its successor's");
        drop(third);
    });
}

#[test]
fn directories_list_rename_and_remove() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let fs = runtime.fs();
        fs.create_dir_all(Path::new("/a/b")).await.expect("new");
        fs.create_dir_all(Path::new("/a/b")).await.expect("there already");
        for name in ["z", "b/x", "m"] {
            let file = fs.open(&Path::new("/a").join(name), OpenOptions::REWRITE).await.expect("new");
            file.write_all_at(name.as_bytes(), 0).await.expect("no fault");
        }
        let list = fs.list(Path::new("/a")).await.expect("there");
        let list: Vec<_> =
            list.iter().map(|entry| (entry.name.as_str(), entry.is_directory, entry.length)).collect();
        assert_eq!(list, [("b", true, 0), ("m", false, 1), ("z", false, 1)]);
        fs.rename(Path::new("/a/b"), Path::new("/c")).await.expect("a directory moves with what it holds");
        assert_eq!(fs.read_small(Path::new("/c/x"), 9).await.expect("there"), b"b/x");
        let kinds = [
            fs.rename(Path::new("/c"), Path::new("/c/d")).await.expect_err("into itself").kind(),
            fs.rename(Path::new("/a/m"), Path::new("/c")).await.expect_err("onto a directory").kind(),
            fs.remove(Path::new("/c")).await.expect_err("not a file").kind(),
            fs.list(Path::new("/nowhere")).await.expect_err("missing").kind(),
            fs.open(Path::new("/no/file"), OpenOptions::REWRITE).await.err().expect("no directory").kind(),
            fs.open(Path::new("/a/../m"), OpenOptions::READ).await.err().expect("no such way").kind(),
        ];
        assert_eq!(
            kinds,
            [
                io::ErrorKind::InvalidInput,
                io::ErrorKind::IsADirectory,
                io::ErrorKind::IsADirectory,
                io::ErrorKind::NotFound,
                io::ErrorKind::NotFound,
                io::ErrorKind::InvalidInput,
            ]
        );
        fs.remove_dir_all(Path::new("/c")).await.expect("there");
        assert_eq!(world.disk(node).files(), ["/a/m", "/a/z"]);
        assert_eq!(world.disk(node).used_bytes(), 2);
    });
}

/// `FileSystem::replace` is how checkpoints are written: whole old or whole new, whenever power fails.
#[test]
fn replacing_a_file_is_atomic_at_every_moment() {
    let seen = in_world(|world, notes| async move {
        for round in 0..40 {
            let node = world.add_node(
                &format!("r{round}"),
                boot(|runtime| async move {
                    runtime.fs().create_dir_all(Path::new("/d")).await.expect("new");
                    runtime.fs().replace(Path::new("/d/f"), b"old").await.expect("no fault");
                    runtime.fs().sync_dir(Path::new("/")).await.expect("no fault");
                    runtime.sleep(seconds(1)).await;
                    runtime.fs().replace(Path::new("/d/f"), b"the new one").await.expect("no fault");
                    pending::<()>().await;
                }),
            );
            world.start(node);
            sleep(Duration::from_micros(1_000_000 + round * 150)).await;
            world.power_fail(node);
            let content = world.disk(node).read_file("/d/f").expect("it is never missing");
            notes.add(String::from_utf8_lossy(&content));
        }
    });
    assert!(seen.iter().all(|content| content == "old" || content == "the new one"), "{seen:?}");
    assert!(seen.iter().any(|content| content == "old") && seen.iter().any(|content| content != "old"));
}

#[test]
fn unsynced_directory_changes_survive_or_not_but_leave_no_file_with_two_names() {
    let seen = in_world(|world, notes| async move {
        for _ in 0..60 {
            let (node, runtime) = idle(&world);
            let fs = runtime.fs();
            fs.create_dir_all(Path::new("/d/old")).await.expect("new");
            let file = fs.open(Path::new("/d/old/f"), OpenOptions::REWRITE).await.expect("new");
            file.write_all_at(b"x", 0).await.expect("no fault");
            file.sync_data().await.expect("no fault");
            for directory in ["/", "/d", "/d/old"] {
                fs.sync_dir(Path::new(directory)).await.expect("no fault");
            }
            assert_eq!(world.disk(node).durable_files(), ["/d/old/f"]);
            fs.rename(Path::new("/d/old"), Path::new("/d/between")).await.expect("there");
            fs.rename(Path::new("/d/between"), Path::new("/d/new")).await.expect("there");
            fs.open(Path::new("/d/new/g"), OpenOptions::REWRITE).await.expect("new");
            let loss = world.power_fail(node);
            assert_eq!(loss.kept_directory_changes + loss.lost_directory_changes, 3);
            notes.add(world.disk(node).files().join(" "));
        }
    });
    let seen: std::collections::BTreeSet<String> = seen.into_iter().collect();
    let allowed = [
        "/d/between/f",
        "/d/between/f /d/between/g",
        "/d/new/f",
        "/d/new/f /d/new/g",
        "/d/old/f",
        "/d/old/f /d/old/g",
    ];
    assert!(seen.iter().all(|files| allowed.contains(&files.as_str())), "{seen:?}");
    assert!(seen.len() >= 4, "{seen:?}");
}

#[test]
fn a_rename_is_durable_once_its_directory_is_synced() {
    in_world(|world, _| async move {
        for _ in 0..20 {
            let (node, runtime) = idle(&world);
            let fs = runtime.fs();
            fs.create_dir_all(Path::new("/a")).await.expect("new");
            fs.create_dir_all(Path::new("/b")).await.expect("new");
            fs.sync_dir(Path::new("/")).await.expect("no fault");
            fs.open(Path::new("/a/f"), OpenOptions::REWRITE).await.expect("new");
            fs.rename(Path::new("/a/f"), Path::new("/b/f")).await.expect("there");
            fs.sync_dir(Path::new("/b")).await.expect("no fault");
            fs.rename(Path::new("/b"), Path::new("/c")).await.expect("there");
            fs.sync_dir(Path::new("/")).await.expect("no fault");
            world.power_fail(node);
            assert_eq!(world.disk(node).files(), ["/c/f"]);
        }
    });
}

#[test]
fn a_failed_sync_of_a_directory_leaves_it_unsynced_and_a_wiped_disk_is_empty() {
    in_world(|world, _| async move {
        let (node, runtime) = idle(&world);
        let disk = world.disk(node);
        open(&runtime).await;
        disk.change_faults(|faults| faults.sync_dir_error_ppm = 1_000_000);
        runtime.fs().sync_dir(Path::new("/")).await.expect_err("a fault");
        assert!(disk.durable_files().is_empty());
        disk.set_faults(DiskFaults::default());
        sync_names(&runtime).await;
        assert_eq!(disk.durable_files(), [FILE]);
        disk.wipe();
        assert!(disk.files().is_empty());
        assert_eq!(world.fault_count(FaultKind::Wipe), 1);
    });
}

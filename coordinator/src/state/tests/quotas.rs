//! Quotas. What is expected was observed, in this order, on ZooKeeper 3.8.4.

use super::*;

const LIMITS: &str = "/zookeeper/quota/q/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

/// `/q` with 2 bytes, `/q/a` with 3, and a quota.
fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.ok(create("/q", b"12", 0));
    lab.ok(create("/q/a", b"345", 0));
    lab.ok(create("/zookeeper/quota/q", b"", 0));
    lab.ok(create(LIMITS, b"count=3,bytes=5", 0));
    lab.ok(create(STATS, b"whatever", 0));
    lab
}

fn stats(lab: &Lab) -> &str {
    std::str::from_utf8(lab.data(STATS).unwrap()).unwrap()
}

#[test]
fn creating_the_node_for_the_numbers_counts_the_subtree() {
    let mut lab = lab();
    assert_eq!(stats(&lab), "count=2,bytes=5");
    lab.ok(create("/zookeeper/quota/none", b"", 0));
    lab.ok(create("/zookeeper/quota/none/zookeeper_stats", b"", 0));
    assert_eq!(lab.data("/zookeeper/quota/none/zookeeper_stats"), Some(&b"count=0,bytes=0"[..]));
    assert_eq!(lab.data(LIMITS), Some(&b"count=3,bytes=5"[..]));
}

#[test]
fn each_write_below_is_counted_in_silence() {
    let mut lab = lab();
    let before = lab.stat(STATS);
    let applied = lab.ok(create("/q/b", b"67", 0));
    assert_eq!(applied.events.len(), 2);
    assert_eq!(stats(&lab), "count=3,bytes=7");
    lab.ok(set_data("/q/a", b"1", -1));
    assert_eq!(stats(&lab), "count=3,bytes=5");
    lab.ok(set_data("/q", b"", -1));
    assert_eq!(stats(&lab), "count=3,bytes=3");
    lab.ok(delete("/q/b", -1));
    assert_eq!(stats(&lab), "count=2,bytes=1");
    lab.ok(create("/qq", b"not below", 0));
    assert_eq!(stats(&lab), "count=2,bytes=1");
    // Limits are for clients to read.
    lab.ok(create("/q/big", &[b'x'; 100], 0));
    assert_eq!(stats(&lab), "count=3,bytes=101");
    assert_eq!(lab.stat(STATS), Stat { data_length: 17, ..before });
}

#[test]
fn numbers_that_a_client_wrote_are_gone_on_with() {
    let mut lab = lab();
    let mut step = |data: &str, expected: &str| {
        lab.ok(set_data(STATS, data.as_bytes(), -1));
        lab.ok(create("/q/n-", b"67", 2));
        assert_eq!(stats(&lab), expected);
    };
    step("count=100,bytes=1000", "count=101,bytes=1002");
    step(
        "count=100,bytes=1000=;byteHardLimit=7;countHardLimit=8",
        "count=101,bytes=1002=;byteHardLimit=7;countHardLimit=8",
    );
    step("count=5;foo=6", "count=6,bytes=1=;foo=6");
    step("", "count=0,bytes=1");
    // What would stop a ZooKeeper is taken for nothing.
    step("not, numbers=at all;=;count=x", "count=0,bytes=1");
}

#[test]
fn only_the_innermost_quota_counts() {
    let mut lab = lab();
    lab.ok(create("/zookeeper/quota/q/a", b"", 0));
    lab.ok(create("/zookeeper/quota/q/a/zookeeper_limits", b"", 0));
    lab.ok(create("/zookeeper/quota/q/a/zookeeper_stats", b"", 0));
    lab.ok(create("/q/a/1", b"67", 0));
    assert_eq!(lab.data("/zookeeper/quota/q/a/zookeeper_stats"), Some(&b"count=2,bytes=5"[..]));
    assert_eq!(stats(&lab), "count=2,bytes=5");
    lab.ok(delete("/zookeeper/quota/q/a/zookeeper_limits", -1));
    lab.ok(create("/q/a/2", b"67", 0));
    assert_eq!(stats(&lab), "count=3,bytes=7");
}

#[test]
fn a_quota_without_its_node_for_the_numbers_is_not_counted() {
    let mut lab = lab();
    lab.ok(delete(STATS, -1));
    lab.ok(create("/q/b", b"", 0));
    assert!(!lab.has(STATS));
    lab.ok(create(STATS, b"", 0));
    assert_eq!(stats(&lab), "count=3,bytes=5");
    lab.ok(delete(LIMITS, -1));
    lab.ok(delete("/q/b", -1));
    assert_eq!(stats(&lab), "count=3,bytes=5", "there is no quota any more");
}

#[test]
fn a_multi_that_fails_counts_nothing() {
    let mut lab = lab();
    let requests =
        [create("/q/x", b"999", 0), set_data("/q", b"", -1), delete(LIMITS, -1), check("/none", -1)];
    assert_eq!(lab.results(&requests), [0, 0, 0, -101]);
    assert_eq!(stats(&lab), "count=2,bytes=5");
    assert_eq!(lab.results(&[create("/q/x", b"999", 0), create("/q/x/y", b"", 0)]), [0, 0]);
    assert_eq!(stats(&lab), "count=4,bytes=8");
}

#[test]
fn quotas_come_back_with_a_snapshot() {
    let mut lab = lab();
    lab.machine = restored(&snapshot_of(&mut lab.machine));
    lab.ok(create("/q/x", b"999", 0));
    assert_eq!(stats(&lab), "count=3,bytes=8");
}

#[test]
fn names_that_only_look_like_it() {
    let mut lab = lab();
    for path in ["/zookeeper/quota/zookeeper_stats", "/zookeeper/quota/zookeeper_limits", "/zookeeper/quotas"]
    {
        lab.ok(create(path, b"as it is", 0));
        assert_eq!(lab.data(path), Some(&b"as it is"[..]));
    }
    lab.ok(create("/zookeeper/quotas/zookeeper_stats", b"as it is", 0));
    assert_eq!(lab.data("/zookeeper/quotas/zookeeper_stats"), Some(&b"as it is"[..]));
}

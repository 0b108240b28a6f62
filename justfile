# Everything people do with this tree. `just` lists it.

set shell := ["bash", "-euo", "pipefail", "-c"]

# What there is to do
default:
    @just --list --unsorted

# Simulate (200 seeds of a crash where nothing else is said): just sim run power-loss --seeds 500
sim *args='run scenarios/single-broker-crash.toml --seeds 200':
    cargo sim {{args}}

# All tests
test:
    cargo test --workspace

# Three coordinators (2181 to 2183) and three brokers (9092 to 9094) on 127.0.0.1 with their data in data/cluster; prints where they listen
up:
    conformance/cluster.sh start

# Stop what `just up` started, cleanly
down:
    conformance/cluster.sh stop

# The cluster of `just up`: status, kill N, start N, leader TOPIC P, controller, kill-coordinator N, bootstrap, remove, ...
cluster *args='status':
    conformance/cluster.sh {{args}}

# One broker on 127.0.0.1:9092 with its logs in data/sillon; Ctrl-C stops it cleanly
broker *args:
    cargo run --release --bin sillon-broker -- {{args}}

# Formatting, clippy and documentation without warnings, files and functions no longer than they may be
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings --cfg madsim" cargo doc --workspace --no-deps
    cargo test -p sillon-runtime --test tidy

# Format everything
fmt:
    cargo fmt --all

# Real clients against the real broker; what a machine lacks is skipped and named
conformance *args:
    conformance/run.sh {{args}}

# A broker killed twenty times while producers write to it
kill9 *args:
    conformance/kill9.sh {{args}}

# A cluster under load while leaders, the controller and a coordinator are killed (--full: ten minutes)
chaos *args:
    conformance/chaos.sh {{args}}

# A cluster in network namespaces, under load while its network is cut (needs root)
netns *args:
    conformance/netns.sh {{args}}

# CPU, latency, start-up, fetch and recovery as ratios against bench-local floors
bench *args:
    bench/run.sh {{args}}

# The same load against Apache Kafka 3.9, interleaved (needs Java and Maven)
bench-kafka *args:
    bench/kafka.sh {{args}}

# An ensemble of three coordinators on 127.0.0.1:23181 to 23183: start, stop, kill, status, leader, connect, remove
ensemble *args='status':
    conformance/ensemble.sh {{args}}

# The coordinator against a real ZooKeeper 3.8.4, interleaved (needs Java and Maven)
bench-coordinator *args:
    bench/coordinator.sh {{args}}

# Three brokers, acks=all, three replicas: CPU per gigabyte, latency, idle partitions (--kafka: interleaved with Apache Kafka 3.9)
bench-cluster *args:
    bench/cluster.sh {{args}}

# How long partitions stand still when a broker dies (--kafka: interleaved with Apache Kafka 3.9; --vanish: the machine goes, needs root)
bench-failover *args:
    bench/failover.sh {{args}}

# Long sweep of every scenario
sweep seeds='2000':
    cargo sim run scenarios/*.toml --seeds {{seeds}}

# Planted bugs: each must be found, replayed and absent from the clean build
bugs *args:
    cargo sim bugs {{args}}

# Every decoder that reads from the network or the disk, fed hostile bytes for so many seconds altogether
fuzz seconds='600':
    FUZZ_SECONDS={{seconds}} cargo test --release -p sillon-broker --test fuzz -- --nocapture

# What continuous integration runs
ci:
    .ci/run

#!/usr/bin/env bash
# Apache Kafka 3.9's DumpLogSegments over every file that the broker has left: any complaint is a failure.
# LOG_DIRECTORY is the broker's log directory. The broker must have been stopped.
. "$(dirname "$(realpath "$0")")/../lib.sh"
[ -n "${LOG_DIRECTORY:-}" ] || skip "the broker is not ours, and neither are its files"
need java "install the package openjdk-17-jre-headless"
need mvn "install the package maven"

dump() {
  JDK_JAVA_OPTIONS="-Xmx512m" "$conformance/peers/kafka.sh" tool 39 kafka.tools.DumpLogSegments "$@"
}

# files KIND: every file of the kind, one a line. Directories on their way to be deleted are left out.
files() {
  find "$LOG_DIRECTORY" -name "*.$1" -path '*-[0-9]*/*' -not -path '*-delete/*' | LC_ALL=C sort
}

# The same, without empty files and those of an empty log: they are sound, and --verify-index-only falls over its own feet on them.
files_to_verify() {
  local file
  files "$1" | while read -r file; do
    if [ -s "$file" ] && [ -s "${file%.*}.log" ]; then echo "$file"; fi
  done
}

# check KIND OPTIONS...: dumps every file of the kind. Each must be told of, and nothing may be told but what a sound file gives.
check() {
  local kind=$1 list count output=$WORK/dump-log.$1
  shift
  if [ "$1" = --verify-index-only ]; then list=$(files_to_verify "$kind"); else list=$(files "$kind"); fi
  [ -n "$list" ] || { echo "there is no .$kind file in $LOG_DIRECTORY"; return 1; }
  count=$(wc -l <<<"$list")
  dump --files "$(paste -sd, <<<"$list")" "$@" 2>&1 | grep -vE "$sound" >"$output"
  [ "${PIPESTATUS[0]}" = 0 ] || { tail -n 5 "$output"; return 1; }
  if grep -vqE '^Dumping ' "$output"; then
    echo "$(grep -vcE '^Dumping ' "$output") lines of complaint, such as:"
    grep -vE '^Dumping ' "$output" | head -n 3
    return 1
  fi
  [ "$(grep -c '^Dumping ' "$output")" = "$count" ] || { echo "of $count files only $(grep -c '^Dumping ' "$output") were read"; return 1; }
}

# What a sound file gives: the tool's own notices, batches whose checksum is right, and records.
sound='^NOTE: Picked up JDK_JAVA_OPTIONS|^Log starting offset: |^baseOffset: .* isvalid: true$|^\| offset: .* isValid: true|^\| offset: |passed sanity check\.$|\.index is empty\.$'

step "the tool is there" dump --version
step "every .log, record by record" check log --deep-iteration
step "every .index, sanity" check index --index-sanity-check
step "every .index, against its log" check index --verify-index-only
step "every .timeindex, sanity" check timeindex --index-sanity-check
step "every .timeindex, against its log" check timeindex --verify-index-only
finish

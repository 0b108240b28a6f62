#!/usr/bin/env bash
# kcat (librdkafka): writes a real text of at least 100 MB and reads back the same bytes, once for each codec.
# SHORT=1 takes 2 MB. BOOTSTRAP is the broker, WORK a directory to work in.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need kcat "install the package kcat"

bytes=$((100 * 1000 * 1000))
[ "$SHORT" = 0 ] || bytes=$((2 * 1000 * 1000))
text=$WORK/text

# The names of real text files of this machine, the same order every time: the Rust documentation, the crates' sources, C headers, this project.
text_files() {
  local folder
  for folder in "$(rustc --print sysroot 2>/dev/null)/share/doc" "${CARGO_HOME:-$HOME/.cargo}/registry/src" /usr/include /usr/share/doc "$repository"; do
    [ ! -d "$folder" ] || find "$folder" -type f \( -name '*.html' -o -name '*.rs' -o -name '*.md' -o -name '*.h' -o -name '*.txt' -o -name copyright \) \
      -not -path '*/target/*' 2>/dev/null | LC_ALL=C sort
  done
}

# kcat sends one record for each line, and drops a line that would be an empty record or is longer than a record may be: those are
# left out. The text ends with a newline, for kcat writes one after each record.
make_text() {
  text_files | tr '\n' '\0' | xargs -0 cat 2>/dev/null | LC_ALL=C awk 'length > 0 && length < 100000' | head -c "$bytes" >"$text"
  local have
  have=$(stat -c %s "$text")
  [ "$have" -gt 1000000 ] || { echo "only $have bytes of text were found on this machine"; return 1; }
  while [ "$have" -lt "$bytes" ]; do # a machine with little text reads it several times
    head -c $((bytes - have)) "$text" >"$text.more"
    cat "$text.more" >>"$text"
    have=$(stat -c %s "$text")
  done
  rm -f "$text.more"
  echo >>"$text"
}

# One partition, and an idempotent producer, so that the order is kept and nothing comes twice.
round_trip() {
  local topic=$1 codec=$2
  kcat -q -b "$BOOTSTRAP" -P -t "$topic" -p 0 -z "$codec" -X enable.idempotence=true -X linger.ms=50 -X queue.buffering.max.messages=1000000 <"$text" || return 1
  kcat -q -b "$BOOTSTRAP" -C -t "$topic" -p 0 -o beginning -e >"$WORK/read-back" || return 1
  cmp "$text" "$WORK/read-back"
}

# What reached the disk is compressed: the codec was really used.
smaller_on_disk() {
  local size
  size=$(cat "$LOG_DIRECTORY/$1-0"/*.log | wc -c)
  [ "$size" -gt 0 ] && [ "$size" -lt $((bytes * 3 / 4)) ] || { echo "$size bytes on disk for $bytes bytes of text"; return 1; }
}

metadata() {
  kcat -b "$BOOTSTRAP" -L | grep -E 'broker [0-9]+ at'
}

step "metadata" metadata
step "make $((bytes / 1000000)) MB of text" make_text
run=$(date +%s%N)
for codec in none gzip snappy lz4 zstd; do
  topic=kcat-$codec-$run
  step "write and read back, $codec" round_trip "$topic" "$codec"
  if [ "$codec" != none ] && [ -n "${LOG_DIRECTORY:-}" ]; then step "compressed on disk, $codec" smaller_on_disk "$topic"; fi
done
rm -f "$text" "$WORK/read-back"
finish

#!/usr/bin/env bash
# kill9.sh [--short]: a broker killed twenty times (five) under an idempotent producer: nothing acknowledged is lost, nothing is there twice.
exec "$(dirname "$(realpath "$0")")/run.sh" --only kill9 "$@"

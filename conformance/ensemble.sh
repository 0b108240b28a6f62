#!/usr/bin/env bash
# An ensemble of coordinators on this machine.
#
#   ensemble.sh start [N...]    start members (all where none is named), with the data they have, and wait until they serve
#   ensemble.sh stop [N...]     ask them to end, and wait for it
#   ensemble.sh kill [N...]     kill -9
#   ensemble.sh status [N...]   a line for each: number, address, mode, process id
#   ensemble.sh leader          the number of the member that leads
#   ensemble.sh connect         the connect string
#   ensemble.sh remove          kill all and remove their data
#
# ENSEMBLE_SIZE=3 is how many members there are, numbered from 1; one is a standalone server. ENSEMBLE_DIRECTORY (default
# /tmp/sillon-ensemble) is where they keep their files, member N in the folder N: zoo.cfg, data, output. Member N serves clients on
# ENSEMBLE_PORT+N (default 23180). SILLON_COORDINATOR names a program to use instead of building one.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/lib.sh"
. "$here/members.sh"
size=${ENSEMBLE_SIZE:-3}
directory=${ENSEMBLE_DIRECTORY:-${TMPDIR:-/tmp}/sillon-ensemble}
base_port=${ENSEMBLE_PORT:-23180}

prepare() {
  build_coordinator
}

# The digest is that of super:test.
own_configuration() {
  cat <<CONFIGURATION
extendedTypesEnabled=true
superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=
CONFIGURATION
}

launch() {
  setsid "${prefix[@]}" "$SILLON_COORDINATOR" --config "$1/zoo.cfg" >>"$1/output" 2>&1 </dev/null &
}

run_command "$(sed -n '2,15s/^# \{0,1\}//p' "$0")" "$@"

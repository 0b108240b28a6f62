#!/usr/bin/env bash
# A real Apache ZooKeeper 3.8.4 from Maven Central, to compare with. Takes the commands of ../ensemble.sh:
#
#   zookeeper.sh start|stop|kill|status [N...]
#   zookeeper.sh leader|connect|remove
#
# ENSEMBLE_SIZE=3 is how many members there are; one is a standalone server. ENSEMBLE_DIRECTORY (default /tmp/sillon-zookeeper) is
# where they keep their files. Member N serves clients on ENSEMBLE_PORT+N (default 22180). HEAP (default 768m) is the heap of each.
# JAVA_OPTIONS are more options for Java.
set -uo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/../lib.sh"
. "$here/../members.sh"
size=${ENSEMBLE_SIZE:-3}
directory=${ENSEMBLE_DIRECTORY:-${TMPDIR:-/tmp}/sillon-zookeeper}
base_port=${ENSEMBLE_PORT:-22180}

# Apache Kafka 3.9 brings ZooKeeper 3.8.4 with it.
prepare() {
  jars=$("$here/kafka.sh" jars 39)
}

# ZooKeeper makes a system property of every key that it does not know, with `zookeeper.` in front. The digest is that of super:test.
own_configuration() {
  cat <<CONFIGURATION
admin.enableServer=false
reconfigEnabled=true
extendedTypesEnabled=true
DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=
CONFIGURATION
}

launch() {
  # shellcheck disable=SC2086 # The options are several words on purpose.
  setsid "${prefix[@]}" java "-Xmx${HEAP:-768m}" -Dreadonlymode.enabled=true -Dfile.encoding=UTF-8 -Djava.awt.headless=true \
    "-DLOGF=$1/log" "-Dlog4j.configuration=file:$here/log4j.properties" ${JAVA_OPTIONS:-} -cp "$jars/*" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$1/zoo.cfg" >>"$1/output" 2>&1 </dev/null &
}

run_command "$(sed -n '2,10s/^# \{0,1\}//p' "$0")" "$@"

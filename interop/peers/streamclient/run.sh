#!/usr/bin/env bash
# run.sh ARGS...: starts a worker of the Tablestore Stream Client 1.0.0; without arguments it prints the flags. Build it first:
#   mvn -q -B -f pom.xml -DbuildDirectory=DIR package     # DIR absolute; STREAMCLIENT=DIR tells it here
# Default DIR: $PEERS_WORK/streamclient. JAVA_OPTS adds flags.
here=$(cd "$(dirname "$0")" && pwd); work=${PEERS_WORK:-$here/../.work}; d=${STREAMCLIENT:-$work/streamclient}
exec java -Xmx256m $JAVA_OPTS -cp "$d/streamclient.jar:$d/lib/*" peer.StreamClientPeer "$@"

#!/usr/bin/env bash
# kafkajs: see clients/kafkajs/kafkajs.js. BOOTSTRAP is the broker.
. "$(dirname "$(realpath "$0")")/../lib.sh"
need node "install the package nodejs"
need npm "install the package npm"
client=$conformance/clients/kafkajs modules=$cache/kafkajs
if ! cmp -s "$client/package.json" "$modules/package.json"; then
  rm -rf "$modules" && mkdir -p "$modules/install" && cp "$client/package.json" "$modules/install/"
  (cd "$modules/install" && npm install --silent --no-audit --no-fund --no-package-lock) || skip "kafkajs could not be installed from npm"
  mv "$modules/install/node_modules" "$modules/" && cp "$client/package.json" "$modules/"
fi
NODE_PATH=$modules/node_modules exec timeout 300 node "$client/kafkajs.js" "$BOOTSTRAP"

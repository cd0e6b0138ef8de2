#!/usr/bin/env bash
# Rewrites tests/fuzz/corpus, after `./dev fuzz`: the smallest inputs that reach all code that the former inputs and the
# inputs found since (build/fuzz/corpus) reach. A file is named by the hash of its content.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for name in decode expression capi; do
  merged="$(mktemp -d)"
  "build/fuzz/bin/${name}_fuzz" -merge=1 -use_counters=0 -max_len=400 -timeout=20 -detect_leaks=0 \
    "$merged" "tests/fuzz/corpus/$name" "build/fuzz/corpus/$name"
  rm -rf "tests/fuzz/corpus/$name"
  mv "$merged" "tests/fuzz/corpus/$name"
  chmod 755 "tests/fuzz/corpus/$name"
done

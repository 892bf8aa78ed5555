#!/usr/bin/env bash
# Runs every test: unit, property, documentation and end-to-end tests of all crates.
#
# Real workflows and known optima are read from $MDTS_DATA (default: ../shared/data). Without that folder the tests
# that need it print "skipped: no data"; with CI=true its absence is an error.
set -euo pipefail
cd "$(dirname "$0")"

data="${MDTS_DATA:-$PWD/../shared/data}"
if [ -d "$data" ]; then
  MDTS_DATA="$(cd "$data" && pwd)"
  export MDTS_DATA
elif [ -n "${MDTS_DATA:-}" ] || [ "${CI:-}" = true ]; then
  echo "test.sh: no test data at '$data'; set MDTS_DATA to its folder" >&2
  exit 2
fi

cargo test --workspace --locked "$@"

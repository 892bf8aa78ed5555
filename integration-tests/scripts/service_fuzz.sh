#!/usr/bin/env bash
# Fuzzes a placement service from its OpenAPI document with schemathesis: no status of 500 and above but 503, no answer that the
# document does not tell of, no crash, and memory within a limit.
#
# usage: service_fuzz.sh MDTS [SECONDS]       90 seconds by default: half with policy eft, half with mdts and names that exist
set -euo pipefail
mdts="$(realpath "$1")"
seconds="${2:-90}"
checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
here="$(cd "$(dirname "$0")" && pwd)"
most_mib=1024

tools="${MDTS_FUZZ_TOOLS:-$here/../../target/schemathesis}"
if ! [ -x "$tools/bin/schemathesis" ]; then
  python3 -m pip install --quiet --target "$tools" 'schemathesis==4.32.5'
fi

folder="$(mktemp -d)"
service=
finish() {
  [ -z "$service" ] || kill "$service" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' > token
token="$(cat token)"

curl() { command curl -sSf --max-time 10 --unix-socket s "$@" > /dev/null; }
seed() {
  curl http://mdts/v1/nodes --data '{"nodes": {"m0": {"lease_seconds": 0}, "m1": {"speed": 2, "lease_seconds": 0}}}'
  for _ in 1 2 3; do
    curl 'http://mdts/v1/jobs?lease_seconds=0' --data '{"tasks": [{"name": "a", "work": 1}, {"name": "b", "after": ["a"]}]}'
  done
}
# begin POLICY: a new service with something in it
begin() {
  rm -rf state greeting log
  "$mdts" serve --listen 127.0.0.1:0 --token-file token --socket s --journal state --snapshot-after 256KiB --policy "$1" \
    > greeting 2> log &
  service=$!
  for _ in $(seq 100); do
    [ -S s ] && grep -q 'listening on 127' greeting && break
    sleep 0.1
  done
  address="$(sed -n 's/^listening on \(127[0-9.:]*\).*/\1/p' greeting)"
  seed
}
# end: it is alive and took little memory, and ends well
end() {
  kill -0 "$service"
  local memory
  memory=$(($(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$service/status") / 1024))
  echo "the service took at most $memory MiB"
  [ "$memory" -le "$most_mib" ]
  if grep -i 'panic\|fault' log; then exit 1; fi
  kill "$service"
  wait "$service" || { echo "the service did not end well" >&2; exit 1; }
  service=
}
fuzz() {
  PYTHONPATH="$tools" "$tools/bin/schemathesis" --config-file "$1" run "http://$address/openapi.json" -H "Authorization: Bearer $token" \
    --max-time "$2" --request-timeout 20 --continue-on-failure --no-color --seed 1 --checks "$checks"
}
begin eft
fuzz "$here/service_fuzz.toml" $((seconds / 2))
end
begin mdts
fuzz "$here/service_fuzz_named.toml" $((seconds - seconds / 2))
end

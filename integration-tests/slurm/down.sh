#!/usr/bin/env bash
# Ends the cluster that up.sh started in FOLDER, with its jobs, and nothing else: down.sh FOLDER [--purge]
# --purge also removes the folder.
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2p' "$0" >&2; exit 2; }
folder=$(cd "$1" 2>/dev/null && pwd -P) || exit 0
[ -e "$folder/.mdts-test-slurm" ] || exit 0
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$folder/slurm.conf
unset SLURM_JWT

# The daemons of this cluster, by their mark; not this script, nor its watchdog.
daemons() {
  local entry name
  for entry in /proc/[0-9]*; do
    name=$(cat "$entry/comm" 2>/dev/null) || continue
    case $name in
      slurm*|munged) tr '\0' '\n' 2>/dev/null <"$entry/environ" | grep -qxF "MDTS_TEST_SLURM=$folder" && echo "${entry#/proc/} $name" ;;
    esac
  done
}
below() { local child; for child in $(pgrep -P "$1"); do below "$child"; echo "$child"; done; }

if timeout 3 scontrol ping 2>/dev/null | grep -q 'is UP'; then
  jobs=$(timeout 5 squeue -h -o %A 2>/dev/null | sort -u)
  if [ -n "$jobs" ]; then
    echo "$jobs" | xargs timeout 20 scancel 2>/dev/null
    for ((i = 0; i < 30; i++)); do [ -n "$(timeout 5 squeue -h 2>/dev/null)" ] || break; sleep 0.1; done
  fi
fi
# Jobs that are still there first: without their daemons nobody would end them.
daemons | while read -r number name; do [ "$name" != slurmstepd ] || kill -KILL $(below "$number") "$number" 2>/dev/null; done
for signal in TERM KILL; do
  left=$(daemons | cut -d ' ' -f 1)
  [ -n "$left" ] || break
  kill -$signal $left 2>/dev/null
  for ((i = 0; i < 50; i++)); do [ -n "$(daemons)" ] || break; sleep 0.1; done
done
[ "${2:-}" != --purge ] || rm -rf "$folder"
exit 0

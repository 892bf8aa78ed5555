#!/usr/bin/env bash
# Starts a real Slurm of several nodes on this machine, for tests: one controller and one daemon per node, all on loopback.
#
#   up.sh FOLDER [--workers N] [--equal-weights] [--owner PID] [--rest] [--line 'KEY=VALUE']... [--file FILE]...
#         [--plugin NAME=FILE]... [--variable NAME=VALUE]... [--package NAME]...
#
# Four unequal nodes (fast, middle, slow, big), of which Slurm prefers the faster ones unless they have equal weights, or N equal
# ones (w1 ... wN) with --workers. All that belongs to it is in FOLDER,
# whose slurm.conf is printed: programs of Slurm use the cluster with SLURM_CONF set to it. down.sh FOLDER ends it; with --owner
# a watchdog does when that process is gone. --rest also starts slurmrestd, on FOLDER/rest.sock and on the port in FOLDER/rest.port
# (with tokens), and --line adds a line to slurm.conf. --file copies a file beside slurm.conf, --plugin one into a folder of
# PluginDir, --variable sets a variable for the daemons, --package wants a further Debian package. Packages that are missing are
# installed if this is root.
# Exit status 3: Slurm is not there and cannot be installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
usage() { sed -n '4,5p' "$0" >&2; exit 2; }
tell() { echo "up.sh: $*" >&2; }

[ $# -ge 1 ] || usage
folder=$1; shift
workers=0 weights= owner= rest=0 lines=() files=() plugin_files=() wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    --workers) workers=$2; shift 2 ;;
    --equal-weights) weights=1; shift ;;
    --owner) owner=$2; shift 2 ;;
    --rest) rest=1; shift ;;
    --line) lines+=("$2"); shift 2 ;;
    --file) files+=("$2"); shift 2 ;;
    --plugin) plugin_files+=("$2"); shift 2 ;;
    --variable) export "${2?}"; shift 2 ;;
    --package) wanted+=("$2"); shift 2 ;;
    *) usage ;;
  esac
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd -P)
chmod 755 "$folder"
[ ${#folder} -le 70 ] || { tell "$folder: a socket in it would have too long a name"; exit 1; }
export PATH=$PATH:/usr/sbin:/sbin

# ---- packages
packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)
[ $rest = 0 ] || packages+=(slurmrestd slurm-wlm-jwt-plugin)
packages+=(${wanted[@]+"${wanted[@]}"})
is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
install_packages() {
  # The packages must not start daemons of their own.
  local policy=/usr/sbin/policy-rc.d ours=0
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && ours=1; }
  local get=(apt-get -qq -o DPkg::Lock::Timeout=300)
  local ok=0
  { DEBIAN_FRONTEND=noninteractive "${get[@]}" install -y --no-install-recommends "$@" ||
    { "${get[@]}" update && DEBIAN_FRONTEND=noninteractive "${get[@]}" install -y --no-install-recommends "$@"; }; } \
    >"$folder/apt.log" 2>&1 || ok=1
  [ $ours = 0 ] || rm -f $policy
  return $ok
}
missing=()
for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    tell "these Debian packages are missing: ${missing[*]}"; exit 3
  fi
  tell "installing ${missing[*]}"
  install_packages "${missing[@]}" || { tail -n 3 "$folder/apt.log" >&2; exit 3; }
fi
plugins=$(dirname "$(dpkg -L slurm-wlm-basic-plugins | grep -m 1 'select_cons_tres.so$')")

# ---- nodes: name, cores, megabytes, weight, features, GPUs
nodes=()
if [ "$workers" -gt 0 ]; then
  for ((i = 1; i <= workers; i++)); do nodes+=("w$i 4 8000 1 worker 0"); done
else
  nodes=("fast 8 32000 10 speed_4,quick 2" "middle 8 16000 20 speed_2 0" "slow 4 8000 30 speed_1 0" "big 4 128000 40 speed_1,large 0")
fi

# ---- ports: a block that nobody uses, taken while no other cluster looks for one
exec 7>"${TMPDIR:-/tmp}/mdts-test-slurm-ports.lock"
flock -w 120 7 || { tell "another cluster holds the lock for ports"; exit 1; }
is_taken() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
count=$((${#nodes[@]} + 2))
for ((port = 21000; port < 32000; port += 128)); do
  free=1
  for ((i = 0; i < count; i++)); do if is_taken $((port + i)); then free=0; break; fi; done
  [ $free = 0 ] || break
done

# ---- configuration
umask 022
mkdir -p "$folder"/{state,spool,log,device,plugins}
for file in ${files[@]+"${files[@]}"}; do cp "$file" "$folder/"; done
for file in ${plugin_files[@]+"${plugin_files[@]}"}; do cp "${file#*=}" "$folder/plugins/${file%%=*}"; done
touch "$folder/.mdts-test-slurm"
[ -s "$folder/munge.key" ] || (umask 077; head -c 256 /dev/urandom >"$folder/munge.key")
user=$(id -un)
{
  cat <<CONF
ClusterName=mdts
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge.sock
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
PluginDir=$plugins:$folder/plugins
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/%n.log
MailProg=/bin/true
# Nodes are what this file says, whatever the machine is, and need no control groups.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=64
GresTypes=gpu
# Jobs begin within a second.
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
KillWait=1
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=60
MinJobAge=600
MaxJobCount=20000
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
CONF
  if [ $rest = 1 ]; then echo "AuthAltTypes=auth/jwt"; echo "AuthAltParameters=jwt_key=$folder/jwt.key"; fi
  for line in ${lines[@]+"${lines[@]}"}; do echo "$line"; done
  number=0
  for node in "${nodes[@]}"; do
    read -r name cores memory weight features gpus <<<"$node"
    weight=${weights:-$weight}
    number=$((number + 1))
    gres=; [ "$gpus" = 0 ] || gres=" Gres=gpu:$gpus"
    echo "NodeName=$name NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + number)) CPUs=$cores CoresPerSocket=$cores" \
      "RealMemory=$memory Weight=$weight Features=$features$gres"
  done
  echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
  echo "PartitionName=closed Nodes=ALL State=DOWN"
} >"$folder/slurm.conf"
: >"$folder/gres.conf"
for node in "${nodes[@]}"; do
  read -r name _ _ _ _ gpus <<<"$node"
  for ((i = 0; i < gpus; i++)); do : >"$folder/device/$name-$i"; done
  [ "$gpus" = 0 ] || echo "NodeName=$name Name=gpu File=$folder/device/$name-[0-$((gpus - 1))]" >>"$folder/gres.conf"
done
if [ $rest = 1 ] && [ ! -s "$folder/jwt.key" ]; then (umask 077; head -c 32 /dev/urandom >"$folder/jwt.key"); fi

# ---- daemons; the variable tells down.sh which are of this cluster
for variable in $(compgen -e | grep -E '^(SLURM|SBATCH|SALLOC|SRUN|SQUEUE|SCANCEL|SINFO|SACCT)' || true); do unset "$variable"; done
export SLURM_CONF=$folder/slurm.conf MDTS_TEST_SLURM=$folder
give_up() { tell "$1"; tail -n 3 "$folder"/log/*.log >&2 || true; "$here/down.sh" "$folder"; exit 1; }
trap 'give_up "line $LINENO failed"' ERR
wait_until() { # SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.1; done
}
munged --force --key-file "$folder/munge.key" --socket "$folder/munge.sock" --pid-file "$folder/munged.pid" \
  --log-file "$folder/log/munged.log" --seed-file "$folder/munge.seed" 7>&-
wait_until 10 test -S "$folder/munge.sock" || give_up "munged does not come up"
slurmctld 7>&-
answers() { timeout 5 scontrol ping | grep -q 'is UP'; }
wait_until 30 answers || give_up "slurmctld does not come up"
for node in "${nodes[@]}"; do slurmd -N "${node%% *}" 7>&-; done
are_idle() { [ "$(timeout 5 sinfo -h -N -p main -o '%t' | grep -c '^idle$')" = ${#nodes[@]} ]; }
wait_until 60 are_idle || give_up "the nodes do not come up"
if [ $rest = 1 ]; then
  echo $((port + count - 1)) >"$folder/rest.port"
  rm -f "$folder/rest.sock"
  # Root may not be the user of the port with tokens; the socket trusts whoever connects.
  SLURMRESTD_SECURITY=disable_user_check setsid slurmrestd -a rest_auth/local -s openapi/v0.0.38 "unix:$folder/rest.sock" \
    >"$folder/log/rest.log" 2>&1 </dev/null 7>&- & echo $! >"$folder/slurmrestd.pid"
  SLURM_JWT=daemon SLURMRESTD_SECURITY=disable_user_check setsid slurmrestd -a rest_auth/jwt -s openapi/v0.0.38 \
    "127.0.0.1:$((port + count - 1))" >"$folder/log/rest-tcp.log" 2>&1 </dev/null 7>&- & echo $! >"$folder/slurmrestd-tcp.pid"
  wait_until 10 test -S "$folder/rest.sock" || give_up "slurmrestd does not come up"
  wait_until 10 is_taken $((port + count - 1)) || give_up "slurmrestd does not listen"
fi
exec 7>&-
if [ -n "$owner" ]; then
  setsid bash -c 'while [ -d "/proc/$1" ] && ! grep -q "^State:.Z" "/proc/$1/status"; do sleep 0.5; done; exec "$2/down.sh" "$3" --purge' \
    mdts-test-slurm-watchdog "$owner" "$here" "$folder" >/dev/null 2>&1 </dev/null &
fi
trap - ERR
echo "$folder/slurm.conf"

#!/usr/bin/env bash
# Measures Treefold's calls beside the peers that users would pick instead: gRPC in Go, tonic, Ray and Dask. All run by turns, on
# this machine, with the same work (docs/evaluation-peers.md).
#
#   bench/peers/run.sh                                    all systems, 16 and 64 server processes, three runs each
#   bench/peers/run.sh --only go,treefold --nodes 16 -o json
#
# --help lists the options. A system whose tools are missing is left out, with a message. PROFILE names the cargo profile
# (release by default). TREEFOLD and PEERS are paths of built programs (`treefold`, `bench-peers`), which are used instead of
# building them. WHEEL is a wheel of the Python package, which is installed instead of building one.
# PYTHON is the interpreter for the environment of the Python peers, which is kept in the cache (python3 by default).
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/treefold/peers
profile=${PROFILE:-release}
target_dir=${CARGO_TARGET_DIR:-target}
mkdir -p "$cache"

only=go,tonic,ray,dask,treefold,treefold-python
arguments=("$@")
for ((at = 0; at < ${#arguments[@]}; at++)); do
  case ${arguments[at]} in
    -h | --help) exec python3 bench/peers/compare.py --help ;;
    --only) only=${arguments[at + 1]:-$only} ;;
    --only=*) only=${arguments[at]#--only=} ;;
  esac
done
wants() { [[ ",$only," == *",$1,"* ]]; }
left_out() { echo "left out: $1" >&2; }

programs=()
if wants tonic || wants treefold; then
  if [ -n "${TREEFOLD:-}" ] && [ -n "${PEERS:-}" ]; then
    programs+=(--treefold "$TREEFOLD" --rust "$PEERS")
  elif command -v cargo >/dev/null; then
    cargo build --locked --profile "$profile" -p treefold-cli -p bench-peers >&2
    programs+=(--treefold "${TREEFOLD:-$target_dir/$profile/treefold}" --rust "${PEERS:-$target_dir/$profile/bench-peers}")
  else
    left_out "tonic and treefold: there is no cargo"
  fi
fi

if wants go; then
  if ! command -v go >/dev/null; then
    left_out "go: there is no go"
  elif (cd bench/peers/go && go build -trimpath -o "$cache/go-peer" .) >&2; then
    programs+=(--go "$cache/go-peer")
  else
    left_out "go: its build failed; does the module proxy answer?"
  fi
fi

# Installs packages for a Python peer, unless it can be imported already.
python=$cache/venv/bin/python
has() { "$python" -c "import $1" 2>/dev/null; }
installed() {
  [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$cache/venv" >&2 || return 1
  has "$1" || "$python" -m pip install --quiet --disable-pip-version-check "${@:2}" >&2
}
usable=()
for system in ray dask treefold-python; do
  wants "$system" || continue
  case $system in
    ray) needs=(ray -r bench/peers/python/requirements.txt) ;;
    dask) needs=(distributed -r bench/peers/python/requirements.txt) ;;
    treefold-python) needs=(treefold "${WHEEL:-./python}") ;;
  esac
  if installed "${needs[@]}"; then usable+=("$system"); else left_out "$system: its Python package can't be installed"; fi
done
[ ${#usable[@]} = 0 ] || programs+=(--python "$python")

# What was left out is no longer asked for.
asked=()
for system in go tonic treefold; do
  case $system in go) flag=--go ;; *) flag=--rust ;; esac
  if wants "$system" && [[ " ${programs[*]} " == *" $flag "* ]]; then asked+=("$system"); fi
done
asked+=("${usable[@]}")
[ ${#asked[@]} -gt 0 ] || { echo "no system is left" >&2; exit 1; }
exec python3 bench/peers/compare.py "${arguments[@]}" "${programs[@]}" --only "$(IFS=,; echo "${asked[*]}")"

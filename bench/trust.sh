#!/usr/bin/env bash
# Measures the price of trust: calls, streams and connections without anything, with a token, and with certificates.
#
# usage: bench/trust.sh [ROUNDS]     the three kinds take turns ROUNDS times [default: 3]; prints lines of JSON
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3}
cargo build --quiet --profile lean --locked -p treefold-cli
treefold=${CARGO_TARGET_DIR:-target}/lean/treefold
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$treefold" keys init --cluster bench --dir "$work" >/dev/null
"$treefold" keys issue node bench --dir "$work" --may call,stream,join --at 127.0.0.1 >/dev/null
token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')

# runs a benchmark with one kind of trust, and prints its line with that kind in front
measure() {
	local kind=$1
	shift
	local line
	case $kind in
	none) line=$(env -u TREEFOLD_TOKEN -u TREEFOLD_KEYS "$treefold" bench "$@" -o json) ;;
	token) line=$(env -u TREEFOLD_KEYS TREEFOLD_TOKEN="$token" "$treefold" bench "$@" -o json) ;;
	keys) line=$(env -u TREEFOLD_TOKEN TREEFOLD_KEYS="$work/bench.pem" "$treefold" bench "$@" -o json) ;;
	esac
	printf '{"bench":"%s","trust":"%s","figures":%s}\n' "$*" "$kind" "$line"
}

for _ in $(seq "$rounds"); do
	for kind in none token keys; do
		measure "$kind" connect
		for nodes in 16 64; do
			measure "$kind" call --nodes "$nodes" --shape kary:8
		done
	done
	# a network of `bench stream` has a token, or nothing
	for backends in 16 64; do
		measure none stream --backends "$backends" --shape kary:8 --plain
		measure token stream --backends "$backends" --shape kary:8
	done
done

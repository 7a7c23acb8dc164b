#!/usr/bin/env bash
# Runs `treefold doctor` on set-ups with a defect each, and shows what it says. Needs root, iproute2, iptables, prlimit and faketime.
#
#   TREEFOLD=target/release/treefold bench/doctor.sh
#
# The nodes run in a network namespace, which this script makes and removes, so that no rule touches this machine's own network.
set -euo pipefail
treefold=$(realpath "$(command -v "${TREEFOLD:-treefold}")")
space=treefold-doctor-$$
work=$(mktemp -d)
pids=()

inside() { ip netns exec "$space" "$@"; }
end() {
    # faketime keeps its program as a child
    for pid in "${pids[@]}"; do pkill -9 -P "$pid" || true; kill -9 "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns del "$space"
    rm -rf "$work"
}
node() {
    ip netns exec "$space" "$@" >"$work/$RANDOM.out" 2>&1 &
    pids+=($!)
}
show() {
    echo "$ treefold $*" | sed "s|$work/||g"
    inside "${before[@]}" "$treefold" "$@" 2>&1 | sed "s|$work/||g" || true
    echo
}

ip netns add "$space"
trap end EXIT
inside ip link set lo up
before=()
export NO_COLOR=1
unset TREEFOLD_LOG
seed=127.0.0.1:7700

node "$treefold" node --listen "$seed" --serve micro:partitions=0-3/8
sleep 1
node "$treefold" node --listen 127.0.0.1:7701 --join "$seed" --serve micro:partitions=4-7/8
sleep 4

echo "== sound"
show doctor --at "$seed"

echo "== UDP blocked on the way to 7701"
inside iptables -A INPUT -p udp --dport 7701 -j DROP
show doctor --at "$seed"
inside iptables -F

echo "== another cluster"
show doctor --at "$seed" --cluster production

echo "== a low limit of open files"
before=(prlimit --nofile=200:200)
show doctor
before=()

echo "== a node whose clock is wrong"
node faketime -f -2h "$treefold" node --listen 127.0.0.1:7702 --join "$seed"
sleep 4
show doctor --at "$seed"

echo "== this host's clock is wrong"
before=(faketime -f +90d)
show doctor --at "$seed"
before=()

echo "== a certificate that this host's clock does not accept"
(cd "$work" && "$treefold" keys init --cluster production >keys.out && "$treefold" keys issue node n1 --at 127.0.0.1 >>keys.out)
before=(env TREEFOLD_KEYS="$work/keys/n1.pem" faketime -f -2d)
show doctor

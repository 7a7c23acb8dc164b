"""Racks of network namespaces with shaped links, for real programs.

    host == edge ==\                      /== edge == host
                    switch == uplink == switch
    relay == fast =/                      \= fast == relay

A link is a veth pair with a token bucket at both ends, so what goes to a host queues at its switch. The namespaces have no
names: the kernel removes them with their interfaces as soon as this process and the programs in them have ended, however
that happens. Programs end with this process (PR_SET_PDEATHSIG). Nothing is put into the namespace in which this starts, unless
the network joins a switch there.
"""

import ctypes
import os
import signal
import subprocess
import threading

QUEUE_BYTES = 256 << 10
BURST_BYTES = 66 << 10
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result, doing):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"can't {doing}: {os.strerror(error)} (this needs root's rights)")


def _on_a_thread(work):
    """Runs work on a thread of its own, whose namespace may change. Returns its result."""
    outcome = []

    def run():
        try:
            outcome.append((True, work()))
        except BaseException as error:  # it is raised again by the caller's thread
            outcome.append((False, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    is_result, value = outcome[0]
    if not is_result:
        raise value
    return value


class Space:
    """A network namespace, held by a descriptor."""

    def __init__(self):
        def make():
            _checked(LIBC.unshare(CLONE_NEWNET), "make a network namespace")
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        self.descriptor = _on_a_thread(make)

    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def enter(self):
        """Moves the calling thread into the namespace, to its end."""
        _checked(LIBC.setns(self.descriptor, CLONE_NEWNET), "enter a network namespace")

    def start(self, arguments, **options):
        """Starts a program in the namespace. Call it on the main thread: the program ends with the thread that starts it."""

        def prepare():
            self.enter()
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        return subprocess.Popen(arguments, preexec_fn=prepare, **options)

    def configure(self, tool, lines):
        program = self.start([tool, "-batch", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _, said = program.communicate("\n".join(lines) + "\n")
        if program.returncode != 0:
            raise OSError(f"{tool} refuses {lines}: {said.strip()}")

    def interfaces(self):
        """Bytes that each interface has received and sent."""

        def read():
            self.enter()
            with open("/proc/thread-self/net/dev", encoding="ascii") as lines:
                return [line.split() for line in lines if ":" in line]

        return {row[0].rstrip(":"): (int(row[1]), int(row[9])) for row in _on_a_thread(read)}


def _shaped(interface, mbit):
    return f"qdisc add dev {interface} root tbf rate {mbit}mbit burst {BURST_BYTES} limit {QUEUE_BYTES}"


class Host:
    def __init__(self, name, rack, address, mbit, space, port):
        self.name, self.rack, self.address, self.mbit, self.space, self.port = name, rack, address, mbit, space, port


class Network:
    """One or two racks."""

    def __init__(self, racks, uplink_mbit):
        self.hosts = {}
        self.uplink_mbit = uplink_mbit
        self.switches = [Space() for _ in range(racks)]
        for switch in self.switches:
            switch.configure("ip", ["link set dev lo up", "link add name bridge0 type bridge", "link set dev bridge0 up"])
        if racks == 2:
            first, second = self.switches
            first.configure("ip", [f"link add name uplink0 type veth peer name uplink0 netns {second.path()}"])
            for switch in self.switches:
                switch.configure("ip", ["link set dev uplink0 master bridge0 up"])
                switch.configure("tc", [_shaped("uplink0", uplink_mbit)])

    def plug_in(self, name, rack, mbit):
        """Adds a host. The order of addresses is that of places: each has three digits."""
        space, place = Space(), 101 + len(self.hosts)
        address, port, switch = f"10.77.{rack}.{place}", f"port{place}", self.switches[rack]
        switch.configure("ip", [f"link add name {port} type veth peer name eth0 netns {space.path()}",
                                f"link set dev {port} master bridge0 up"])
        switch.configure("tc", [_shaped(port, mbit)])
        space.configure("ip", ["link set dev lo up", f"addr add {address}/16 dev eth0", "link set dev eth0 up"])
        space.configure("tc", [_shaped("eth0", mbit)])
        self.hosts[name] = Host(name, rack, address, mbit, space, port)
        return self.hosts[name]

    def join(self, bridge):
        """Connects the first rack's switch with a bridge of the namespace in which this runs."""
        self.switches[0].configure("ip", [f"link add name trunk0 type veth peer name port-trunk netns {os.getpid()}",
                                          "link set dev trunk0 master bridge0 up"])
        subprocess.run(["ip", "link", "set", "dev", "port-trunk", "master", bridge, "up"], check=True)

    def carried(self):
        """Bytes that each link has carried: to the host, and from it; of the uplink, to the second rack, and from it."""
        tables = [switch.interfaces() for switch in self.switches]
        links = {}
        for host in self.hosts.values():
            received, sent = tables[host.rack][host.port]
            links[host.name] = (sent, received, host.mbit)
        if len(self.switches) == 2:
            received, sent = tables[0]["uplink0"]
            links["uplink"] = (sent, received, self.uplink_mbit)
        return links

"""A cable on which packets take long and get lost, made by this program: not every kernel has netem. Needs root.

Its ends have the congestion control that Linux comes with, cubic, whatever this machine uses.
"""

import collections
import fcntl
import os
import random
import select
import struct
import threading
import time

from cable import Cable, CableError, call

ALLOWED = "net.ipv4.tcp_allowed_congestion_control"  # in network namespaces
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


class FarCable(Cable):
    """A Cable of two ranks with a round trip of so many seconds, that loses this share of the packets in each direction."""

    def __init__(self, rate, round_trip, loss, seed=1):
        super().__init__(rate)
        self.delay, self.loss, self.random = round_trip / 2, loss, random.Random(seed)
        self.taps, self.carrier, self.ended = [], None, threading.Event()
        self.allowed = None  # before the cable was laid

    def _lay(self):
        super()._lay()
        self.allowed = call("sysctl", "-n", ALLOWED).strip()
        call("sysctl", "-w", f"{ALLOWED}={self.allowed} cubic")
        for name in self.names:
            call("ip", "netns", "exec", name, "sysctl", "-w", "net.ipv4.tcp_congestion_control=cubic")
        self.carrier = threading.Thread(target=self._carry, daemon=True)
        self.carrier.start()

    def _join(self, *ends):
        for name, device in zip(ends[::2], ends[1::2]):
            try:
                tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            except OSError as error:
                raise CableError(f"/dev/net/tun: {error.strerror}") from error
            self.taps.append(tap)
            temporary = f"tap{os.getpid() % 100000}n{len(self.taps)}"
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", temporary.encode(), IFF_TAP | IFF_NO_PI))
            call("ip", "link", "set", temporary, "netns", name)
            call("ip", "-n", name, "link", "set", temporary, "name", device)
            call("ip", "-n", name, "link", "set", device, "up")
            call("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst", "64k", "latency", "100ms")

    def _carry(self):
        """Hands each packet to the other end when its time has come, in order."""
        queues = [collections.deque(), collections.deque()]  # to each end: (time, packet)
        while not self.ended.is_set():
            due = min((queue[0][0] for queue in queues if queue), default=time.monotonic() + 0.1)
            ready, _, _ = select.select(self.taps, [], [], max(0, due - time.monotonic()))
            for tap in ready:
                queue = queues[1 - self.taps.index(tap)]
                try:
                    for _ in range(64):
                        packet = os.read(tap, 65536)
                        if self.random.random() >= self.loss:
                            queue.append((time.monotonic() + self.delay, packet))
                except BlockingIOError:
                    pass
            now = time.monotonic()
            for tap, queue in zip(self.taps, queues):
                while queue and queue[0][0] <= now:
                    try:
                        os.write(tap, queue.popleft()[1])
                    except OSError:
                        pass  # its end is down: the packet is lost

    def _remove(self):
        self.ended.set()
        if self.carrier:
            self.carrier.join()
        if self.allowed is not None:
            call("sysctl", "-w", f"{ALLOWED}={self.allowed}")
        super()._remove()
        for tap in self.taps:
            os.close(tap)

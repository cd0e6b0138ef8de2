"""Hosts that ssh reaches, for one test: network namespaces on one switch, with an sshd in each but the first. Keys, ports and
configuration are the test's own."""

import os
import pathlib
import shlex
import shutil
import subprocess
import time

from conftest import name_of

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # where Debian keeps daemons
DEADLINE = 60  # seconds


def missing():
    """Says in words what is missing; empty when nothing is."""
    absent = [program for program in ("sshd", "ssh", "ssh-keygen") if shutil.which(program, path=PATH) is None]
    return f"{', '.join(absent)}: not installed (Debian: apt-get install openssh-server openssh-client)" if absent else ""


def processes_of(namespace):
    return [int(pid) for pid in subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout.split()]


class SshHosts:
    """`cable` joins the namespaces. The first one is where commands are given; the others are hosts."""

    def __init__(self, cable, folder):
        self.cable, self.folder = cable, pathlib.Path(folder)
        self.here = ["ip", "netns", "exec", cable.names[0]]
        self.hosts = cable.addresses[1:]
        self.folder.mkdir(mode=0o700)
        for key in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", self.folder / key], check=True)
        (self.folder / "authorized").write_bytes((self.folder / "user.pub").read_bytes())
        host_key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        (self.folder / "known").write_text("".join(f"{host} {host_key}\n" for host in self.hosts))
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder / 'host'}\nAuthorizedKeysFile {self.folder / 'authorized'}\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n")
        self.ssh = self.ssh_with("user")
        self.daemons = []
        try:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # where sshd locks itself in
            for name in cable.names[1:]:
                log = self.folder / f"log-{name}"
                command = ["ip", "netns", "exec", name, shutil.which("sshd", path=PATH), "-D", "-E", log, "-f", self.folder / "sshd_config"]
                self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True))
            for host in self.hosts:
                self._wait_for(host)
        except BaseException:
            self.close()
            raise

    def ssh_with(self, key):
        options = ["-F", "none", "-i", self.folder / key, "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
                   "-o", f"UserKnownHostsFile={self.folder / 'known'}", "-o", "StrictHostKeyChecking=yes"]  # fmt: skip
        return shlex.join(["ssh", *map(str, options)])

    def _wait_for(self, host):
        end = time.monotonic() + DEADLINE
        while True:
            tried = subprocess.run([*self.here, *shlex.split(self.ssh), host, "true"], capture_output=True, text=True, timeout=DEADLINE)
            if tried.returncode == 0:
                return
            assert time.monotonic() < end, f"{host}: {tried.stderr}\n{self.logs()}"
            time.sleep(0.05)

    def logs(self):
        return "\n".join(log.read_text() for log in self.folder.glob("log-*"))

    def processes(self):
        """All processes of the hosts that are not the daemons themselves."""
        daemons = {daemon.pid for daemon in self.daemons}
        return [pid for name in self.cable.names[1:] for pid in processes_of(name) if pid not in daemons]

    def rank(self, number):
        for pid in self.processes():
            if name_of(pid) == f"sotto-rank{number}":
                return pid
        raise AssertionError(f"rank {number} does not run")

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        for pid in self.processes():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

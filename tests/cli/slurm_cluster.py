"""A Slurm on this machine for one test session: munged, slurmctld and one slurmd a node, on loopback, with their own
ports, keys and folders. It needs no systemd, no cgroups and no configuration in /etc."""

import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time

import pytest

PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "sinfo", "squeue"]
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # where Debian keeps daemons
DEADLINE = 60  # seconds


class SlurmError(Exception):
    """Says why there can be no cluster here."""


def missing():
    """Says in words what is missing to set a cluster up; empty when nothing is."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if absent:
        return f"{', '.join(absent)}: not installed (Debian: apt-get install slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "slurmd runs jobs as their users, which wants root"


@contextlib.contextmanager
def of_a_module(tmp_path_factory, nodes, cores):
    """A cluster of `nodes` nodes with `cores` cores each, whatever the machine has; where it cannot be, its tests are skipped."""
    if reason := missing():
        pytest.skip(f"Slurm: {reason}")
    try:
        cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"), nodes, cores)
    except SlurmError as error:
        pytest.skip(f"Slurm: {error}")
    try:
        yield cluster
    finally:
        cluster.close()


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [s.getsockname()[1] for s in sockets]


def environments():
    """The number and the environment of each process."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(process.name), (process / "environ").read_bytes().decode(errors="replace").split("\0")


class SlurmCluster:
    """A running cluster. Its nodes are named 127.0.0.1 and so on, since ranks look up the name of a node to meet there."""

    def __init__(self, folder, nodes, cores):
        self.folder = pathlib.Path(folder)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        self.environment |= {"PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.nodes = nodes
        self.daemons = []
        for sub in ("munge", "state", "spool", "log"):
            (self.folder / sub).mkdir(mode=0o700, exist_ok=True)
        os.chmod(self.folder, 0o755)
        try:
            self._start(cores)
        except BaseException:
            self.close()
            raise

    def _start(self, cores):
        munge = self.folder / "munge"
        (munge / "key").write_bytes(secrets.token_bytes(1024))
        (munge / "key").chmod(0o400)
        self._daemon("munged", "--foreground", "--force", f"--key-file={munge / 'key'}", f"--socket={munge / 'socket'}",
                     f"--pid-file={munge / 'pid'}", f"--seed-file={munge / 'seed'}", f"--log-file={self.folder / 'log' / 'munged'}")
        self._wait_until(lambda: (munge / "socket").exists(), "munged")
        self._configure(cores)
        self._daemon("slurmctld", "-D")
        for node in range(1, self.nodes + 1):
            (self.folder / "spool" / f"127.0.0.{node}").mkdir()
            self._start_node(node)
        self._wait_for_nodes()

    def _start_node(self, node):
        self._daemon("slurmd", "-D", "-N", f"127.0.0.{node}")

    def _wait_for_nodes(self):
        self._wait_until(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(self.nodes), "idle nodes")

    def _processes_of(self, node):
        """The daemon of a node, the tasks on it, and the daemons between these."""
        name = f"SLURMD_NODENAME=127.0.0.{node}"
        tasks = [number for number, environment in environments() if name in environment and f"SLURM_CONF={self.folder / 'slurm.conf'}" in environment]
        parents = {int(pathlib.Path(f"/proc/{task}/stat").read_text().rsplit(")")[1].split()[1]) for task in tasks}
        return [self._node(node).pid, *(p for p in parents if pathlib.Path(f"/proc/{p}/comm").read_text().startswith("slurmstepd")), *tasks]

    def _node(self, node):
        return next(d for d in self.daemons if d.args[-1] == f"127.0.0.{node}")

    @contextlib.contextmanager
    def without(self, node, how):
        """A node that fails: all its processes get the signal `how`, and the controller finds the node down. After the
        block the node is there again."""
        processes = self._processes_of(node)
        for process in processes:
            os.kill(process, how)
        self.run("scontrol", "update", f"NodeName=127.0.0.{node}", "State=DOWN", "Reason=lost")
        try:
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            daemon = self._node(node)
            daemon.wait()
            self.daemons.remove(daemon)
            self._start_node(node)
            self.run("scontrol", "update", f"NodeName=127.0.0.{node}", "State=RESUME")
            self._wait_for_nodes()

    def _configure(self, cores):
        control, *ports = free_ports(1 + self.nodes)
        host = socket.gethostname().split(".")[0]
        lines = [
            "ClusterName=sotto", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={control}", "SlurmUser=root", "SlurmdUser=root",
            "AuthType=auth/munge", "CredType=cred/munge",
            # A requeued job waits as long as a credential lives: two minutes by default.
            f"AuthInfo=socket={self.folder / 'munge' / 'socket'},cred_expire=5",
            f"StateSaveLocation={self.folder / 'state'}", f"SlurmdSpoolDir={self.folder / 'spool' / '%n'}",
            f"SlurmctldPidFile={self.folder / 'slurmctld.pid'}", f"SlurmdPidFile={self.folder / 'spool' / '%n.pid'}",
            f"SlurmctldLogFile={self.folder / 'log' / 'slurmctld'}", f"SlurmdLogFile={self.folder / 'log' / '%n'}",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "MpiDefault=none", "MailProg=/bin/true",
            # On a busy machine the controller is slow: by default Slurm's programs give up after ten seconds.
            "MessageTimeout=30", "TCPTimeout=10",
            "ReturnToService=2", "KillWait=2", "SlurmdParameters=config_overrides",
            "SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0",
            f"FirstJobId={1 + secrets.randbelow(1000000)}",  # ranks derive the port they meet at from it
        ]
        for node, port in enumerate(ports, 1):
            lines.append(f"NodeName=127.0.0.{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores} RealMemory=1000")
        lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")

    def _daemon(self, *command):
        with open(self.folder / "log" / "output", "ab") as log:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _wait_until(self, condition, what):
        end = time.monotonic() + DEADLINE
        while not condition():
            dead = [d.args[0] for d in self.daemons if d.poll() is not None]
            if dead or time.monotonic() > end:
                raise SlurmError(f"no {what}{', as these have ended: ' + ', '.join(dead) if dead else ''}; {self.last_words()}")
            time.sleep(0.05)

    def last_words(self):
        return "\n".join(f"{log.name}: {line}" for log in sorted((self.folder / "log").iterdir()) for line in log.read_text().splitlines()[-5:])

    def run(self, *command, cwd=None, **variables):
        """Runs a command of Slurm to its end; returns its status and output."""
        return subprocess.run([str(c) for c in command], cwd=cwd, env=self.environment | variables, stdin=subprocess.DEVNULL,
                              text=True, capture_output=True, timeout=DEADLINE)

    def close(self):
        """Ends every job, then the daemons."""
        if (self.folder / "slurm.conf").exists():
            self.run("scancel", "--user=root")
            end = time.monotonic() + DEADLINE
            while self.run("squeue", "-h", "-t", "R,CG").stdout.strip() and time.monotonic() < end:
                time.sleep(0.05)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

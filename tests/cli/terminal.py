"""A terminal, as a program sees it."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios

from conftest import DEADLINE


def take_terminal():
    """What a shell's child does: Ctrl-C comes to it, although some shells take that away from what they start."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A screen on which a program writes, and a keyboard."""

    def __init__(self, *command, cwd, columns=60, lines=30):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
        self.process = subprocess.Popen(command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                        preexec_fn=take_terminal)
        os.close(theirs)
        self.text = ""

    def wait_for(self, text):
        while text not in self.text:
            assert select.select([self.ours], [], [], DEADLINE)[0], f"waited in vain for {text}: {self.text}"
            self.text += os.read(self.ours, 1 << 16).decode(errors="replace")

    def press(self, keys):
        os.write(self.ours, keys)

    def end(self):
        self.process.wait(timeout=DEADLINE)
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(self.ours, 1 << 16):
                self.text += piece.decode(errors="replace")
        os.close(self.ours)
        return self.process.returncode

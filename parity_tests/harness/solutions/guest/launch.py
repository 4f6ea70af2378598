"""Starts a solution's process and outlives it: in namespaces of its own where Linux grants them, and never an orphan.

Run by its path, with a configuration as JSON. It needs the standard library only, and runs nothing of the solution.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

NO_NAMESPACES = 70  # the exit code if they are not to be had
_ID = 1000  # of the user in the namespace, who must not be its root: that one could undo the mounts
_NEW = {
    "mnt": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV, _NOEXEC = 0x1000, 0x4000, 0x40000, 2, 4, 8
_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVS = 1, 36, 38
_MOUNT_SETATTR, _RECURSIVE, _RDONLY, _AT_FDCWD = 442, 0x8000, 1, -100


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    """Set a property of this process, where it is Linux's."""
    if sys.platform.startswith("linux"):
        _libc().prctl(option, value, 0, 0, 0)


def main() -> None:
    """Start what the configuration says, wait for its end, and end as it did."""
    config = json.loads(sys.argv[1])
    die_with(config["parent"])
    if not config["namespaces"]:
        supervise(lambda: _run(config), config["descriptors"])
    try:
        _unshare()
    except OSError as error:
        sys.stderr.write(f"{error.strerror} ({error.filename or 'unshare'})\n")
        sys.stderr.flush()
        os._exit(NO_NAMESPACES)
    supervise(lambda: _first(config), config["descriptors"])


def supervise(run: Callable[[], None], descriptors: Sequence[int]) -> NoReturn:
    """Run it in a child, with which these descriptors end, and end as it does, after all that it has left."""
    _prctl(_SUBREAPER, 1)
    _end_as(_child(run, descriptors))


def _first(config: Mapping[str, Any]) -> None:
    """The first process of the namespace, with which all others in it end."""
    try:
        _mounts(config)
    except OSError as error:
        sys.stderr.write(f"{error.strerror} ({error.filename})\n")
        sys.stderr.flush()
        os._exit(NO_NAMESPACES)
    status = _child(lambda: _run(config), config["descriptors"])
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _run(config: Mapping[str, Any]) -> None:
    os.setsid()  # so that a signal to its group reaches nobody else
    _prctl(_NO_NEW_PRIVS, 1)
    os.execv(config["command"][0], config["command"])


def _child(run: Callable[[], None], descriptors: Sequence[int]) -> int:
    """Fork, run it in the child, and wait for that; returns its status once it has ended, and kills what it left."""
    parent = os.getpid()
    child = os.fork()
    if not child:
        try:
            _prctl(_PDEATHSIG, signal.SIGKILL)
            if os.getppid() not in (parent, 0):
                os._exit(1)
            run()
        finally:
            os._exit(127)
    for descriptor in filter(_is_open, descriptors):
        os.close(descriptor)  # so that the end of the child is the end of its pipes
    while True:
        ended, status = os.wait()
        if ended == child:
            return status


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _end_as(status: int) -> NoReturn:
    """End as the child has ended; the children that it left, which became this one's, end first."""
    _kill_children()
    if os.WIFSIGNALED(status):
        os._exit(128 + os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _kill_children() -> None:
    while True:
        children = [pid for pid, parent in processes().items() if parent == os.getpid()]
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)
        if not children:
            return


def processes() -> dict[int, int]:
    """The parent of each process, by their numbers; none where there is no /proc."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # it has ended
            continue
    return found


def descendants(ancestor: int) -> list[int]:
    """The processes that a process, or one of its children, has started, unless somebody else has adopted them."""
    parents = processes()
    found, generation = list[int](), [ancestor]
    while generation:
        generation = [pid for pid, parent in parents.items() if parent in generation]
        found += generation
    return found


def die_with(parent: int) -> None:
    """End this process with its parent, of this number."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _unshare() -> None:
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(ctypes.c_int(sum(_NEW.values()))):
        raise _error("unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user or _ID} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group or _ID} {group} 1")


def _mounts(config: Mapping[str, Any]) -> None:
    """Set up the mounts: all read-only but the solution's own folder and /dev/shm, and hidden paths empty."""
    _mount(None, "/", None, _REC | _PRIVATE)
    sockets = _sockets()
    try:
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    except OSError:  # as in a container that masks parts of it
        _mount("tmpfs", "/proc", "tmpfs", _NOSUID | _NODEV | _NOEXEC)
    _set_read_only("/")
    for path, stub in config["hidden"]:
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV | _NOEXEC)
        elif os.path.exists(path):
            _mount(stub, path, None, _BIND)
    for path in sockets:
        if os.path.exists(path) and not os.path.isdir(path):
            _mount(config["empty"], path, None, _BIND)
    _mount("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV) if os.path.isdir("/dev/shm") else None
    own = config["own"]
    _mount(own, own, None, _BIND)
    _set_read_only(own, False)
    os.chdir(os.getcwd())  # so that it is looked up in the new mounts


def _sockets() -> list[str]:
    """The sockets of other processes that have a place among the files."""
    try:
        lines = Path("/proc/net/unix").read_text().splitlines()
    except OSError:
        return []
    paths = [line.split()[-1] for line in lines[1:] if len(line.split()) == 8]
    return [path for path in dict.fromkeys(paths) if path.startswith("/")]


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    if _libc().mount(*arguments, ctypes.c_ulong(flags), None):
        raise _error(target)


def _set_read_only(path: str, flag: bool = True) -> None:
    attributes = struct.pack("QQQQ", _RDONLY if flag else 0, 0 if flag else _RDONLY, 0, 0)
    arguments = (ctypes.c_int(_AT_FDCWD), os.fsencode(path), ctypes.c_uint(_RECURSIVE if flag else 0))
    if _libc().syscall(ctypes.c_long(_MOUNT_SETATTR), *arguments, attributes, ctypes.c_size_t(len(attributes))):
        raise _error(path)


def _error(path: str) -> OSError:
    number = ctypes.get_errno() or errno.EPERM
    return OSError(number, os.strerror(number), path)


if __name__ == "__main__":
    main()

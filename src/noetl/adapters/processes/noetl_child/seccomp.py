"""Seccomp filter: system calls that code of a playbook must not make.

It denies calls that reach other processes, the kernel's own interfaces or new
namespaces, like the filters of containers. Denied calls return EPERM; ``clone3``
returns ENOSYS, so that libraries fall back to ``clone``, whose flags a filter can see.
Only common socket families are allowed: a network namespace does not confine AF_VSOCK,
which leads out of a virtual machine, and other families make the kernel load drivers.
"""

from __future__ import annotations

import ctypes
import os
import struct

_X86_64, _AARCH64 = 0xC000003E, 0xC00000B7  # of <linux/audit.h>
# name: its number on x86_64, on aarch64 (none: -1)
_DENIED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, -1),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, -1),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "query_module": (178, -1),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, -1),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_SOCKET = (41, 198)
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_CLONE, _CLONE3, _PERSONALITY = (56, 220), (435, 435), (135, 92)
_NEW_NAMESPACE = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, …
_X32 = 0x40000000  # numbers of the x32 ABI of x86_64, which programs do not need
_MACHINES = {"x86_64": (_X86_64, 0), "aarch64": (_AARCH64, 1)}

_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_FROM, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCH, _FIRST = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = _ERRNO | 1, _ERRNO | 38
_ANY = 0xFFFFFFFF

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def assemble(machine: str) -> bytes | None:
    """Return the filter in the kernel's format; None for an unknown machine."""
    if machine not in _MACHINES:
        return None
    arch, column = _MACHINES[machine]
    lines = [
        _line(_LOAD, _ARCH),
        _line(_JUMP_EQUAL, arch, 1, 0),  # another one, such as 32 bits: deny all
        _line(_RETURN, _EPERM),
        _line(_LOAD, _NUMBER),
        _line(_JUMP_FROM, _X32, 0, 1),
        _line(_RETURN, _EPERM),
    ]
    for numbers in _DENIED.values():
        if numbers[column] >= 0:
            lines += [_line(_JUMP_EQUAL, numbers[column], 0, 1), _line(_RETURN, _EPERM)]
    lines += [
        _line(_JUMP_EQUAL, _SOCKET[column], 0, len(_FAMILIES) + 3),
        _line(_LOAD, _FIRST),
        *(
            _line(_JUMP_EQUAL, family, len(_FAMILIES) - place, 0)
            for place, family in enumerate(_FAMILIES)
        ),
        _line(_RETURN, _EPERM),
        _line(_RETURN, _ALLOW),
    ]
    lines += [
        _line(_JUMP_EQUAL, _CLONE3[column], 0, 1),
        _line(_RETURN, _ENOSYS),
        _line(_JUMP_EQUAL, _CLONE[column], 0, 3),
        _line(_LOAD, _FIRST),
        _line(_JUMP_SET, _NEW_NAMESPACE, 5, 0),
        _line(_RETURN, _ALLOW),
        _line(_JUMP_EQUAL, _PERSONALITY[column], 0, 4),
        _line(_LOAD, _FIRST),
        _line(_JUMP_EQUAL, 0, 2, 0),  # set the default personality
        _line(_JUMP_EQUAL, _ANY, 1, 0),  # query the personality
        _line(_RETURN, _EPERM),
        _line(_RETURN, _ALLOW),
    ]
    return b"".join(lines)


def install() -> None:
    """Install the filter for this process and its children; it cannot be undone.

    Needs ``no_new_privs``. Does nothing on a kernel without seccomp filters.
    """
    if FILTER is None:
        return
    lines = ctypes.create_string_buffer(FILTER, len(FILTER))
    program = _Program(len(FILTER) // 8, ctypes.addressof(lines))
    ctypes.CDLL(None).prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_void_p))


def _line(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


FILTER = assemble(os.uname().machine)

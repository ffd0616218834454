"""`tandem` as a person has it whom files do not let do everything, where root runs the tests."""

from __future__ import annotations

import ctypes

from tandem.__main__ import main

_DROP_BOUND = 24
"""`prctl`'s number for it."""
_PAST_PERMISSIONS = (1, 2)
"""The two rights by which root needs no permission."""
_VERSION = 0x20080522


def give_up_rights() -> None:
    """Have this process, and all that it starts, need permissions."""
    system = ctypes.CDLL(None)
    # Of both halves: effective, permitted and inheritable rights.
    header, rights = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert system.capget(header, rights) == 0
    for right in _PAST_PERMISSIONS:
        system.prctl(_DROP_BOUND, right, 0, 0, 0)
        for kind in (0, 1):
            rights[kind] &= ~(1 << right)
    assert system.capset(header, rights) == 0


if __name__ == "__main__":
    give_up_rights()
    main()

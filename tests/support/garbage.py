"""Keeps the garbage collector away from what a test process holds to its end.

The collected tests and the imported modules are a million objects. Each full
collection would visit them all, some hundred times in a run.
"""

from __future__ import annotations

import gc

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    gc.unfreeze()  # the last collection, after which leaks are reported, visits all

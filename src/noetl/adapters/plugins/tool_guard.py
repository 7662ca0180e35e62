"""Wrappers that check the results of plug-ins against their ports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from noetl.adapters.processes.limits import read_timeout
from noetl.adapters.processes.noetl_child.values import NotJson, encode
from noetl.engine.tasks.outcome import Failure, Outcome
from noetl.errors import ConfigError, SecretError, ToolError
from noetl.plugins import SecretPlugin, ToolPlugin
from noetl.ports import SecretProvider, Tool, ToolCall, Wanted
from noetl.types import JSON

T = TypeVar("T")

_MAX_BYTES = 64 * 1024 * 1024
_ERROR_KIND = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*\Z")


class GuardedTool:
    """Tool of a plug-in; ``run`` returns an outcome or raises ``ToolError``.

    The constructor raises ``ConfigError`` if the plug-in makes no tool.
    """

    def __init__(self, plugin: ToolPlugin) -> None:
        kind = plugin.kind.name
        self._tool: Tool = made(f"tool kind '{kind}'", plugin.make)
        for method in ("has_effect", "run", "close"):
            if not callable(getattr(self._tool, method, None)):
                what = f"a {type(self._tool).__name__} has no {method}()"
                raise ConfigError(f"plug-in, tool kind '{kind}': {what}")
        self.instant = getattr(self._tool, "instant", False) is True

    def has_effect(self, call: ToolCall) -> bool:
        try:
            return bool(self._tool.has_effect(call))
        except Exception:
            return True  # unknown: assume an effect

    async def run(self, call: ToolCall) -> Outcome:
        seconds = read_timeout(call.spec)
        try:
            async with asyncio.timeout(seconds) as limit:
                outcome = await self._tool.run(call)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"not done after {seconds:g} s: the call was stopped"
            raise ToolError("timeout", message, retryable=True) from None
        except ToolError as error:
            failure = Failure(error.kind, error.message, error.retryable, error.details)
            outcome = Outcome("error", None, failure, error.helper)
        except SystemExit as error:
            message = f"the tool called exit: {error}"
            raise ToolError("tool.contract", message) from None
        return _checked(call.kind, outcome)

    async def close(self) -> None:
        """Close the tool; errors are ignored, since all its calls have ended."""
        try:
            await self._tool.close()
        except Exception:
            return


def _checked(kind: str, outcome: object) -> Outcome:
    """Return the outcome with copied values. Raises ``ToolError`` if it is invalid."""
    if not isinstance(outcome, Outcome):
        raise _broken(kind, f"returned a {type(outcome).__name__}, not an Outcome")
    if outcome.status == "ok" and outcome.error is None:
        result, helper = _plain(kind, outcome.result), _plain(kind, outcome.helper)
        return Outcome("ok", result, None, helper)
    if outcome.status == "error" and isinstance(outcome.error, Failure):
        helper = _plain(kind, outcome.helper)
        return Outcome("error", None, _failure(kind, outcome.error), helper)
    error = type(outcome.error).__name__
    status = f"{outcome.status!r:.40}"
    raise _broken(kind, f"returned an Outcome of status {status} with a {error} error")


def _failure(kind: str, failure: Failure) -> Failure:
    if not isinstance(failure.kind, str) or not _ERROR_KIND.match(failure.kind):
        what = f"failed with {failure.kind!r:.80}, which is not a valid error kind"
        raise _broken(kind, what)
    return Failure(
        failure.kind,
        str(failure.message),
        failure.retryable is True,
        _plain(kind, failure.details),
    )


def _plain(kind: str, value: object) -> JSON:
    """Copy a value through JSON, so that the plug-in shares no part of it."""
    try:
        return msgspec.json.decode(encode(value, _MAX_BYTES))
    except NotJson as error:
        raise _broken(kind, f"returned a value that is not JSON: {error}") from None


def made(what: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except (Exception, SystemExit) as error:
        name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        message = f"plug-in, {what}: {name}{error}"
        raise ConfigError(message) from None


def _broken(kind: str, what: str) -> ToolError:
    return ToolError("tool.contract", f"the plug-in of kind {kind} {what}")


class GuardedProvider:
    """Provider of a plug-in, made when a secret is first requested.

    Of its errors only the type is reported: their text may contain the secret.
    """

    def __init__(self, kind: str, plugin: SecretPlugin) -> None:
        self._kind = kind
        self._plugin = plugin
        self._provider: SecretProvider | None = None

    async def get(self, wanted: Wanted) -> JSON:
        try:
            if self._provider is None:
                self._provider = self._plugin.make()
            return await self._provider.get(wanted)
        except SecretError:
            raise
        except (Exception, SystemExit) as error:
            what = type(error).__name__
            message = f"the plug-in of kind {self._kind} failed with {what}"
            raise SecretError("secret.wrong", message) from None

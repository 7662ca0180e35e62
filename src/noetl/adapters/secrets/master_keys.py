"""The operator's key, which seals the keys of a cluster's keychain: from a file, an
environment variable, a program, or a plug-in."""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
from base64 import b64decode, b64encode, urlsafe_b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from noetl.adapters.plugins.tool_guard import made
from noetl.adapters.secrets.aes_gcm import GivenKey
from noetl.errors import ConfigError, SecretError
from noetl.plugins import KeyPlugin, KeyService

SIZE = 32
PURPOSE = "noetl: a key of the keychain"
TIMEOUT_S = 30.0
_MAX_BYTES = 64 * 1024
_ID = b"noetl: the id of a key\0"
FORMS = "file:/path, env:VARIABLE, command:PROGRAM, or the scheme of a plug-in"


class MasterKey(Protocol):
    """Seals the keys of a keychain; it may never leave the service that holds it."""

    async def seal(self, key: bytes) -> tuple[str, bytes]:
        """Return the id of the key that seals, and the sealed key. Raises
        ``SecretError``."""
        ...

    async def open(self, sealed_by: str, sealed: bytes) -> bytes:
        """Return the key. Raises ``SecretError``."""
        ...


class KeyTexts:
    """Keys of a text that ``read`` returns: the first one seals, all of them open.

    The text is read again for an id that it did not have, so that a key can be added
    to a file while servers run. ``make`` also makes the text, if it does not exist.
    """

    def __init__(
        self,
        place: str,
        read: Callable[[], bytes],
        make: Callable[[], bytes] | None = None,
    ) -> None:
        self._place = place
        self._read = read
        self._make = make or read
        self._keys: dict[str, GivenKey] = {}

    async def seal(self, key: bytes) -> tuple[str, bytes]:
        await self._load(self._make)
        key_id, first = next(iter(self._keys.items()))
        return key_id, first.seal(key, PURPOSE)

    async def open(self, sealed_by: str, sealed: bytes) -> bytes:
        if sealed_by not in self._keys:
            await self._load(self._read)
        if sealed_by not in self._keys:
            found = ", ".join(self._keys)
            message = f"the keychain is sealed with the key {sealed_by}, but "
            message += f"{self._place} has another key ({found})"
            raise SecretError("secret.sealed", message)
        return self._keys[sealed_by].open(sealed, PURPOSE)

    async def _load(self, read: Callable[[], bytes]) -> None:
        text = await asyncio.to_thread(read)
        keys = [GivenKey(each) for each in read_keys(text, self._place)]
        self._keys = {key_id(each.key): each for each in keys}


def read_keys(text: bytes, place: str) -> list[bytes]:
    """Return the keys of a text: 32 bytes, or some of them in base64, each in a line.

    Raises ``SecretError``, without the text.
    """
    if len(text) == SIZE:
        return [text]
    words = text.replace(b",", b" ").split()
    keys = [_decoded(word) for word in words]
    found = [key for key in keys if len(key) == SIZE]
    if not words or len(found) < len(words):
        message = f"{place} holds no key: expected {SIZE} random bytes in base64, "
        message += "for example from: openssl rand -base64 32"
        raise SecretError("secret.sealed", message)
    return found


def _decoded(word: bytes) -> bytes:
    try:
        if b"-" in word or b"_" in word:
            return urlsafe_b64decode(word + b"=" * (-len(word) % 4))
        return b64decode(word, validate=True)
    except (NotBase64, ValueError):
        return b""


def key_id(key: bytes) -> str:
    """Return the id of a key. A key of 256 random bits cannot be found from it."""
    return sha256(_ID + key).hexdigest()[:16]


def read_key_file(path: Path) -> bytes:
    """Read a key that an operator has placed. Raises ``SecretError``.

    A group may read it, and it may be a link: platforms mount secrets so.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode, text = os.fstat(file).st_mode, os.read(file, _MAX_BYTES)
        finally:
            os.close(file)
    except OSError as error:
        message = f"the key {path} cannot be read: {error.strerror}"
        raise SecretError("secret.sealed", message) from None
    if stat.S_IMODE(mode) & 0o007:
        message = f"all users of this machine can read the key {path}; run: "
        raise SecretError("secret.sealed", f"{message}chmod o= {path}")
    return text


def _read_variable(name: str, environ: Mapping[str, str]) -> bytes:
    text = environ.get(name)
    if not text:
        message = f"the environment variable {name} has no key"
        raise SecretError("secret.sealed", f"{message}; set it, and start again")
    return text.encode()


class KeyServiceKey:
    """Key that a service holds; ``name`` is its id in the keychain."""

    def __init__(self, name: str, service: KeyService) -> None:
        self._name = name
        self._service = service

    async def seal(self, key: bytes) -> tuple[str, bytes]:
        return self._name, await self._ask("seal", self._service.seal, key)

    async def open(self, sealed_by: str, sealed: bytes) -> bytes:
        if sealed_by != self._name:
            message = f"the keychain is sealed by {sealed_by}, but the setting "
            message += f"keychain_key names {self._name}"
            raise SecretError("secret.sealed", message)
        return await self._ask("open", self._service.open, sealed)

    async def _ask(self, what: str, call: Callable[..., object], data: bytes) -> bytes:
        """Call the service. Of its errors only the type is reported: their text may
        quote a key."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await call(data)  # type: ignore[misc]
        except SecretError:
            raise
        except (Exception, SystemExit) as error:
            message = f"{self._name} could not {what} a key: {type(error).__name__}"
            raise SecretError("secret.sealed", message) from None
        if not isinstance(answer, bytes) or not 0 < len(answer) <= _MAX_BYTES:
            message = f"{self._name} answered with something that is not a key"
            raise SecretError("secret.sealed", message)
        return answer


class KeyProgram:
    """Service of a program: ``PROGRAM seal`` and ``PROGRAM open`` take base64 on
    standard input, and print base64. What it prints otherwise is not shown."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    async def seal(self, key: bytes) -> bytes:
        return await self._run("seal", key)

    async def open(self, sealed: bytes) -> bytes:
        return await self._run("open", sealed)

    async def _run(self, what: str, data: bytes) -> bytes:
        pipe = asyncio.subprocess.PIPE
        program = self._words[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                what,
                stdin=pipe,
                stdout=pipe,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            message = f"the program {program} cannot be started: {error.strerror}"
            raise SecretError("secret.sealed", message) from None
        try:
            printed, _ = await process.communicate(b64encode(data) + b"\n")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            message = f"{program} {what} ended with exit code {process.returncode}; "
            message += "its output is not shown, since it may hold a key"
            raise SecretError("secret.sealed", message)
        answer = _decoded(printed.strip())
        if not answer:
            message = f"{program} {what} did not print base64"
            raise SecretError("secret.sealed", message)
        return answer


def open_master_key(
    place: str,
    plugins: Mapping[str, KeyPlugin],
    environ: Mapping[str, str] = os.environ,
) -> MasterKey:
    """Return the key that the setting ``keychain_key`` names. Raises
    ``ConfigError``."""
    scheme, _, rest = place.partition(":")
    if not rest:
        # The value is not shown: it may be the key itself.
        raise ConfigError(f"keychain_key: expected {FORMS}")
    if scheme == "file":
        path = Path(rest).expanduser()
        return KeyTexts(str(path), lambda: read_key_file(path))
    if scheme == "env":
        return KeyTexts(f"the variable {rest}", lambda: _read_variable(rest, environ))
    if scheme == "command":
        try:
            words = shlex.split(rest)
        except ValueError as error:
            raise ConfigError(f"keychain_key: {error} in its command") from None
        if not words:
            raise ConfigError("keychain_key: 'command:' needs a program")
        return KeyServiceKey("command", KeyProgram(words))
    if scheme in plugins:
        plugin = plugins[scheme]
        service = made(f"key service '{scheme}'", lambda: plugin.make(place))
        return KeyServiceKey(scheme, service)
    known = ", ".join(sorted(plugins)) or "none"
    message = f"keychain_key: no enabled plug-in provides '{scheme:.40}' ({known}); "
    raise ConfigError(f"{message}expected {FORMS}")

"""The first look at a request, before anything of it is read: its headers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from noetl.access.browsers import Hosts, check_origin
from noetl.access.credentials import Credential, read_credential


class Door(msgspec.Struct, frozen=True):
    """How clients reach this server: by which names, and by ``http`` or ``https``."""

    hosts: Hosts
    scheme: str

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    def look(
        self,
        method: str,
        headers: Mapping[str, Sequence[str]],
        *,
        stream: bool = False,
        local: str = "",
    ) -> Credential | None:
        """The credential of a request that is meant for us, and not another site's.

        ``headers`` has all values by lower-case names. ``stream`` is a WebSocket, or
        events without an end; ``local`` is the address that it came in at. Raises
        ``AccessError``. Credentials in the address are none: addresses are kept in
        logs and histories.
        """
        host = self.hosts.check(headers.get("host", ()), local)
        credential = read_credential(
            headers.get("authorization", ()),
            headers.get("cookie", ()),
            secure=self.secure,
        )
        cookie = credential is not None and credential.means == "session"
        check_origin(method, headers, host, self.scheme, cookie=cookie, stream=stream)
        return credential

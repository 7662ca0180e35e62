"""The database that the settings name: whether its role may do more than it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl.commands.checkup.finding import Finding
from noetl.errors import NoetlError

if TYPE_CHECKING:
    from noetl.adapters.database_roles import Role

_TIMEOUT = 10.0
_CHECK = "database"
_CURE = "give servers a role of their own, and set database_owner: see the guide to "
_CURE += "deploying"


def check_database(address: str | None) -> Iterator[Finding]:
    """Nothing is made in it. The PostgreSQL of ``noetl up`` needs no check."""
    if address is None:
        return
    from noetl.adapters.database_roles import judge_role

    try:
        role = asyncio.run(_look(address))
    except (NoetlError, TimeoutError) as error:
        message = str(error) or f"PostgreSQL did not answer in {_TIMEOUT:g} s"
        yield Finding(_CHECK, "problem", message, "start it, or correct the address")
        return
    wrong = judge_role(role)
    if wrong is not None:
        yield Finding(_CHECK, "warning", wrong, _CURE)
    else:
        message = (
            f"answers; the role '{role.name}' may add to the log and not change it"
        )
        yield Finding(_CHECK, "ok", message)


async def _look(address: str) -> Role:
    from noetl.adapters.database_roles import look_at_role
    from noetl.adapters.postgres import Postgres

    postgres = Postgres(address, size=1)
    try:
        async with asyncio.timeout(_TIMEOUT):
            return await look_at_role(postgres)
    finally:
        await postgres.close()

"""The page of roles, from their table."""

from __future__ import annotations

from noetl.access.permissions import PERMISSIONS, ROLES
from noetl.access.sessions import MAX_VERSIONS, Lifetime
from pages.markdown import table

PLACES = {
    "path": "a path or a prefix: `{role}:finance/*`",
    "pool": "a pool, always: `{role}:gpu`",
    "all": "nothing: it holds everywhere",
}


def access() -> str:
    """Return the page of roles, permissions and the lifetime of sessions."""
    roles = (
        (f"`{name}`", role.doc, PLACES[role.takes].format(role=name))
        for name, role in ROLES.items()
    )
    permissions = (
        (
            f"`{name}`",
            permission.doc,
            ", ".join(
                f"`{r}`" for r, role in ROLES.items() if name in role.permissions
            ),
        )
        for name, permission in PERMISSIONS.items()
    )
    life = Lifetime()
    return "\n\n".join(
        [
            "An account has roles. A role may be followed by the place it is for: "
            "`operator:finance/*` runs what is below `finance`, and nothing else. An "
            "API token has the rights of its account, or fewer, if it was given scopes "
            "of its own; scopes are written like roles.",
            "## Roles",
            table("| role | who | what may follow |", roles),
            "## Permissions",
            "Every route of the server asks for one of these. A session of a browser "
            "never has `work:claim`: workers come with a token.",
            table("| permission | allows to | roles |", permissions),
            "## Sessions",
            f"A session ends {life.ttl / 3600:.0f} hours after the last activity, and "
            f"{life.absolute / 86400:.0f} days after it began at the latest. Activity "
            f"is noted every {life.renewal:.0f} seconds at most. A change of roles or "
            "password, and the end of an account, end all of its sessions. The last "
            f"{MAX_VERSIONS} versions of a session are kept until it expires.",
        ]
    )

"""Keys of earlier drafts, and keys that belong to one scope."""

from __future__ import annotations

from noetl.dsl.grammar.shape import Retired

_CONDITION = Retired(
    "VAL-16",
    'write the condition as when: "{{ … }}"',
    dialect=None,
    message="is not a condition keyword; 'when' is the only one",
)
CONDITIONS = dict.fromkeys(
    ("if", "unless", "condition", "conditions", "cond", "only_if", "skip_if"),
    _CONDITION,
)
NEVER = {
    "expr": Retired("VAL-14", 'write the condition as when: "{{ … }}"', dialect=None),
    "eval": Retired(
        "VAL-15", "write outcome rules under spec.policy.rules", dialect=None
    ),
}


_CREDENTIAL = Retired(
    "VAL-23",
    "declare it under root 'keychain', name it on a task by 'auth'",
    dialect=None,
    message="under executor: credentials do not belong here",
)
CREDENTIALS = dict.fromkeys(
    (
        *("keychain", "credentials", "credential", "secrets", "secret", "auth"),
        *("password", "passwords", "token", "tokens", "api_key"),
    ),
    _CREDENTIAL,
)

# Under executor.spec, `secrets` holds the knobs of the kind of that name (S-52).
SPEC_CREDENTIALS = {k: v for k, v in CREDENTIALS.items() if k != "secrets"}

# Keys that belong to one scope and do not descend to tasks (S-52).
SCOPE_OWNED: dict[str, str] = {
    "mode": "loop.spec or next.spec",
    "max_in_flight": "loop.spec",
    "admit": "step.spec.policy",
    "exec": "loop.spec.policy",
    "join": "step.spec",
    "deadline": "executor.spec or step.spec",
    "limits": "executor.spec",
    "extensions": "executor.spec",
    "failure": "step.spec.policy",
    "timers": "step.spec",
}

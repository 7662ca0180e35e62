"""Everything NoETL raises on purpose.

NoetlError
├── PlaybookError         the text is not a valid playbook; carries the diagnostics
├── ConfigError           a setting or an argument is missing or malformed
└── TemplateError         a template cannot be compiled or evaluated; has a stable kind
"""

from __future__ import annotations


class NoetlError(Exception):
    """The root: whoever catches it catches only what NoETL meant to say."""


class ConfigError(NoetlError):
    """A setting or an argument is missing or malformed."""


class TemplateError(NoetlError):
    """A template failed in a way its author can act on.

    ``kind`` is one of ``template.error``, ``template.undefined``,
    ``template.budget`` and ``template.forbidden``: playbooks match on it.
    """

    def __init__(self, kind: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint

"""Record reader: checks a mapping and returns the children that are valid."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from noetl.dsl.diagnostics import Report, did_you_mean, nearest
from noetl.dsl.grammar.earlier_forms import SCOPE_OWNED, Retired, or_enabled
from noetl.dsl.grammar.records import Field, Record, Shape
from noetl.dsl.node import Location, describe, shorten
from noetl.templates import is_template


class Reader(msgspec.Struct):
    """Reads records and reports problems."""

    report: Report

    def read(
        self, at: Location, record: Record, extra: Collection[str] = ()
    ) -> dict[str, Location]:
        """Return the children with known keys and correct types; report the others."""
        found: dict[str, Location] = {}
        for key in at.child_keys():
            known = record.fields.get(key)
            if known is not None:
                child = at[key]
                if self.fits(child, known, key):
                    found[key] = child
            elif key in record.retired:
                self.refuse(at.key(key), key, record.retired[key])
            elif key not in extra:
                self._unknown(at.key(key), key, record, extra)
        self._missing(at, record)
        return found

    def _missing(self, at: Location, record: Record) -> None:
        absent = [key for key in record.required if key not in at]
        if not absent:
            return
        # An older key in its place has been refused with the same code already.
        older = [
            record.retired[key] for key in at.child_keys() if key in record.retired
        ]
        replaced = {retired.code for retired in older}
        for key in absent:
            known = record.fields[key]
            if known.missing is None or known.missing in replaced:
                continue
            message = f"{record.what} needs '{key}'"
            hint = f"add {key}: … ({known.doc})"
            if known.shape.choices:
                hint = f"add {key}: {known.shape}"
            self.report.error(known.missing, "missing-key", at, message, hint)

    def fits(self, child: Location, known: Field, key: str) -> bool:
        """Return whether a child has the type, choice and range of its field."""
        node, shape = child.node, known.shape
        if shape.template and isinstance(node.value, str) and is_template(node.value):
            return True
        if not shape.accepts(node):
            message = f"'{key}' must be {shape}, found {describe(node)}"
            self.report.error(
                known.code, "type", child, message, _quote_hint(child, shape)
            )
            return False
        if shape.choices and node.value not in shape.choices:
            self._other_choice(child, shape, known, f"'{key}'")
            return False
        if shape.low is not None and shape.high is not None:
            return self._in_range(child, known, key, shape.low, shape.high)
        if shape.items is not None:
            return self._items(child, shape.items, known, key)
        return True

    def _in_range(
        self, child: Location, known: Field, key: str, low: int, high: int
    ) -> bool:
        value = child.node.value
        if low <= value <= high:
            return True
        message = f"'{key}' must be from {low:,} to {high:,}, found {value}"
        self.report.error(known.code, "range", child, message)
        return False

    def _items(self, child: Location, items: Shape, known: Field, key: str) -> bool:
        """Check the scalar items of a list; records are checked by their own reader."""
        if items.record is not None:
            return True
        sound = True
        for item in child.children():
            if not items.accepts(item.node):
                found = describe(item.node)
                message = f"each item of '{key}' must be {items}, found {found}"
                self.report.error(
                    known.code, "type", item, message, _quote_hint(item, items)
                )
                sound = False
            elif items.choices and item.node.value not in items.choices:
                value = str(item.node.value)
                if not is_template(value):
                    self._other_choice(item, items, known, f"each item of '{key}'")
                    sound = False
        return sound

    def _other_choice(
        self, child: Location, shape: Shape, known: Field, what: str
    ) -> None:
        value = str(child.node.value)
        message = f"{what} must be {shape}, found '{shorten(value)}'"
        match = self._nearest(value, shape.choices)
        hint = f"did you mean '{match}'?" if match else None
        self.report.error(known.choice or known.code, "choice", child, message, hint)

    def refuse(self, at: Location, key: str, retired: Retired) -> None:
        """Report a key of an earlier draft, its replacement and the extension that
        accepts it."""
        message = f"'{key}' {retired.message}"
        say = self.report.warn if retired.code == "S-52" else self.report.error
        hint = retired.replacement
        if retired.dialect is not None:
            hint = or_enabled(hint, retired.dialect)
        say(retired.code, "retired-key", at, message, hint)

    def _unknown(
        self, at: Location, key: str, record: Record, extra: Collection[str]
    ) -> None:
        known = {*record.fields, *extra}
        if record.unknown == "warning":
            self.warn_unknown(at, key, record.what, known, record.unknown_code)
        elif record.unknown == "error":
            message = f"unknown key '{shorten(key)}' in {record.what}"
            hint = None if self.report.full else did_you_mean(key, known)
            if key in record.knobs:
                hint = f"it is a knob: move it under spec: {{{key}: …}}"
            self.report.error(record.unknown_code, "unknown-key", at, message, hint)

    def warn_unknown(
        self,
        at: Location,
        key: str,
        what: str,
        known: Collection[str],
        code: str = "S-52",
    ) -> None:
        """Warn about a key that nothing reads, as it may be a typing error."""
        match = self._nearest(key, known)
        hint = f"did you mean '{match}'?" if match else "it has no effect"
        if code == "S-52" and key in SCOPE_OWNED:
            hint = f"it belongs to {SCOPE_OWNED[key]} and has no effect here"
        message = f"unknown key '{shorten(key)}' in {what}"
        self.report.warn(code, "unknown-key", at, message, hint)

    def _nearest(self, word: str, known: Collection[str]) -> str | None:
        """Return the nearest name; None in a full report, which shows no more hints."""
        return None if self.report.full else nearest(word, known)


def _quote_hint(child: Location, shape: Shape) -> str | None:
    """Return a hint to quote a number where text is needed."""
    node = child.node
    if shape.hint is not None:
        return shape.hint
    if shape.types == ("text",) and node.text and node.value is not None:
        return f'quote it: "{node.text}"'
    if shape.types == ("mapping",) and node.is_sequence:
        return "write it as a mapping: key: value"
    if shape.types == ("list",) and node.is_mapping:
        return "write it as a list, each entry after '- '"
    return None

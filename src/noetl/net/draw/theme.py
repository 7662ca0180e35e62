"""Colours and fonts of the picture, for light and dark themes."""

from __future__ import annotations

NAME_SIZE = 13
TASK_SIZE = 11
BADGE_SIZE = 10
GUARD_SIZE = 10
NOTE_SIZE = 10

_FONT = "Inter,'Segoe UI',system-ui,-apple-system,'Helvetica Neue',Arial,sans-serif"
_MONO = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"

# No custom properties: some viewers (librsvg) support media queries but not var().
_LIGHT = """
.paper{fill:#ffffff}
.frame{fill:#f6f8fa;stroke:#57606a}.inner{stroke:#57606a}
.entry .frame{fill:#ddf4ff;stroke:#0969da}.entry .inner{stroke:#0969da}
.route .frame{fill:#fbf5ff;stroke:#8250df}.route .inner{stroke:#8250df}
.name{fill:#1f2328}.task{fill:#424a53}.kind{fill:#0969da}
.badge rect{fill:#fff8c5;stroke:#d4a72c}.badge text{fill:#633c01}
.arc{stroke:#57606a}.head{fill:#57606a}
.arc.guarded{stroke:#0969da}.head.guarded{fill:#0969da}
.arc.failure{stroke:#cf222e}.head.failure{fill:#cf222e}
.arc.never{stroke:#afb8c1}.head.never{fill:#afb8c1}
.guard rect{fill:#ffffff;stroke:#b6d9fb}.guard text{fill:#0550ae}
.guard.failure rect{stroke:#ffb8b5}.guard.failure text{fill:#a40e26}
.guard.never rect{stroke:#d0d7de}.guard.never text{fill:#6e7781}
"""
_DARK = """
.paper{fill:#0d1117}
.frame{fill:#161b22;stroke:#8b949e}.inner{stroke:#8b949e}
.entry .frame{fill:#0c2d4d;stroke:#58a6ff}.entry .inner{stroke:#58a6ff}
.route .frame{fill:#231a38;stroke:#a371f7}.route .inner{stroke:#a371f7}
.name{fill:#f0f6fc}.task{fill:#c9d1d9}.kind{fill:#79c0ff}
.badge rect{fill:#3b2e0a;stroke:#bb8009}.badge text{fill:#f2cc60}
.arc{stroke:#8b949e}.head{fill:#8b949e}
.arc.guarded{stroke:#58a6ff}.head.guarded{fill:#58a6ff}
.arc.failure{stroke:#f85149}.head.failure{fill:#f85149}
.arc.never{stroke:#484f58}.head.never{fill:#484f58}
.guard rect{fill:#0d1117;stroke:#1f4a7d}.guard text{fill:#79c0ff}
.guard.failure rect{stroke:#7d2a2a}.guard.failure text{fill:#ff7b72}
.guard.never rect{stroke:#30363d}.guard.never text{fill:#8b949e}
"""
_SHAPES = f"""
text{{font-family:{_FONT};text-anchor:middle}}
.name{{font-size:{NAME_SIZE}px;font-weight:600}}.task{{font-size:{TASK_SIZE}px}}
.badge text{{font-size:{BADGE_SIZE}px}}.badge rect{{stroke-width:.8}}
.guard text{{font-size:{GUARD_SIZE}px;font-family:{_MONO}}}
.guard rect{{stroke-width:.8}}
.frame{{stroke-width:1.3}}.inner{{fill:none;stroke-width:.7;stroke-opacity:.6}}
.arc{{fill:none;stroke-width:1.4}}
.arc.guarded,.arc.failure{{stroke-dasharray:5 3.5}}.arc.never{{stroke-dasharray:1.5 4}}
"""
STYLE = f"{_SHAPES}{_LIGHT}@media (prefers-color-scheme:dark){{{_DARK}}}\n"

# Result of an execution: colours of ended steps, strength of the arcs that fired.
_PAINTED_LIGHT = """
.was-done .frame{fill:#dafbe1;stroke:#1a7f37}.was-done .inner{stroke:#1a7f37}
.was-failed .frame{fill:#ffebe9;stroke:#cf222e}.was-failed .inner{stroke:#cf222e}
.was-active .frame,.was-flawed .frame{fill:#fff8c5;stroke:#9a6700}
.was-active .inner,.was-flawed .inner{stroke:#9a6700}
.was-skipped .frame,.was-idle .frame{fill:#ffffff;stroke:#8c959f}
.was-skipped .name,.was-idle .name,.was-skipped .task,.was-idle .task{fill:#59636e}
.was-skipped .kind,.was-idle .kind{fill:#59636e}
.note{fill:#59636e}.was-done .note{fill:#116329}.was-failed .note{fill:#a40e26}
.was-active .note,.was-flawed .note{fill:#7d4e00}
.arc.fired{stroke:#1a7f37}.arc.fired.failure{stroke:#cf222e}
.arc.still{stroke:#b6bec7}.guard.still rect{stroke:#d1d9e0}
.guard.still text{fill:#59636e}.guard.fired rect{fill:#f0fff4;stroke:#4ac26b}
.guard.fired text{fill:#116329}.guard.fired.failure rect{fill:#fff5f5;stroke:#ff8182}
.guard.fired.failure text{fill:#a40e26}
a:focus-visible .frame{stroke:#0969da;stroke-width:3}
"""
_PAINTED_DARK = """
.was-done .frame{fill:#0f2a1a;stroke:#3fb950}.was-done .inner{stroke:#3fb950}
.was-failed .frame{fill:#331418;stroke:#f85149}.was-failed .inner{stroke:#f85149}
.was-active .frame,.was-flawed .frame{fill:#32260b;stroke:#d29922}
.was-active .inner,.was-flawed .inner{stroke:#d29922}
.was-skipped .frame,.was-idle .frame{fill:#0d1117;stroke:#6e7681}
.was-skipped .name,.was-idle .name,.was-skipped .task,.was-idle .task{fill:#9198a1}
.was-skipped .kind,.was-idle .kind{fill:#9198a1}
.note{fill:#9198a1}.was-done .note{fill:#7ee2a0}.was-failed .note{fill:#ff9c94}
.was-active .note,.was-flawed .note{fill:#e9c46a}
.arc.fired{stroke:#3fb950}.arc.fired.failure{stroke:#f85149}
.arc.still{stroke:#484f58}.guard.still rect{stroke:#30363d}
.guard.still text{fill:#9198a1}.guard.fired rect{fill:#0c2116;stroke:#2ea043}
.guard.fired text{fill:#7ee2a0}.guard.fired.failure rect{fill:#2a1215;stroke:#da3633}
.guard.fired.failure text{fill:#ff9c94}
a:focus-visible .frame{stroke:#58a6ff;stroke-width:3}
"""
_PAINTED_SHAPES = f"""
.note{{font-size:{NOTE_SIZE}px}}
.was-skipped .frame,.was-idle .frame{{stroke-dasharray:4 3}}
.arc.fired{{stroke-width:2;stroke-dasharray:none}}
.arc.still{{stroke-width:1.1}}.head path{{fill:context-stroke}}
a{{cursor:pointer}}a:hover .frame{{stroke-width:2.2}}a:focus{{outline:none}}
"""
PAINTED_STYLE = (
    f"{_PAINTED_SHAPES}{_PAINTED_LIGHT}"
    f"@media (prefers-color-scheme:dark){{{_PAINTED_DARK}}}\n"
)

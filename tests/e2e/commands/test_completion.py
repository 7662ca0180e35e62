"""``noetl completion``, in the shells that are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASKS = """
source /dev/stdin <<< "$(noetl completion bash)"
COMP_WORDS=(noetl {words}) COMP_CWORD={last}
_noetl_completion noetl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param(["val"], {"validate"}, id="a command"),
        pytest.param(["retry", "--dry"], {"--dry-run"}, id="an option"),
        pytest.param(["completion", ""], {"bash", "zsh", "fish"}, id="a choice"),
    ],
)
def test_bash_completes(words: list[str], found: set[str]) -> None:
    text = " ".join(word or "''" for word in words)
    done = subprocess.run(
        ["bash", "-c", ASKS.format(words=text, last=len(words))],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )

    assert set(done.stdout.split()) == found, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_the_shell(shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "completion", shell],
        capture_output=True,
        text=True,
        check=True,
    )
    script = tmp_path / "script"
    script.write_text(done.stdout)

    assert "_NOETL_COMPLETE" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(script)], check=True)


def test_another_shell_is_refused_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "completion", "tcsh"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr

"""Rows 86 and 87: code and programs that mean harm, through ``noetl run``.

A file that all processes of a call hold a lock on says whether one of them survived.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Attempt = Callable[..., Any]
Validate = Callable[..., Any]

pytestmark = pytest.mark.spec("PIPE-15", "PIPE-20", "S-65")

MEGABYTES = 64
SECRETS = {"NOETL_TOKEN": "noetl-token-5512", "AWS_SECRET_ACCESS_KEY": "aws-key-9931"}


def python(code: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "python", "code": code, "spec": {"timeout": 30, **spec}}


ENVIRONMENTS = """
import os
found = dict(os.environ)
for pid in ('self', os.getppid()):
    try:
        found[str(pid)] = open(f'/proc/{pid}/environ').read()
    except OSError as error:
        found[str(pid)] = str(error)
result = found
"""
CODE = {
    "endless": (python("while True: pass", timeout=0.3), "timeout"),
    "sleeping": (python("import time; time.sleep(600)", timeout=0.3), "timeout"),
    "stubborn": (
        python(
            "import signal\nfor s in (2, 3, 15): signal.signal(s, signal.SIG_IGN)\n"
            "while True:\n  try: signal.pause()\n  except BaseException: pass",
            timeout=0.3,
        ),
        "timeout",
    ),
    "alloc": (python("x = bytearray(100 * 10**9)"), "tool.memory"),
    "alloc_bit_by_bit": (
        python("x = []\nwhile True: x.append(bytearray(10**6))", memory="200MiB"),
        "tool.memory",
    ),
    "disk": (
        python(
            "with open('big', 'wb') as file:\n  while True: file.write(bytes(10**6))",
            disk="5MB",
        ),
        "tool.disk",
    ),
    "disk_at_once": (python("open('big', 'wb').truncate(100 * 10**9)"), "tool.disk"),
    "full": (python("open('/dev/full', 'wb', 0).write(b'x')"), "tool.disk"),
    "environ": (python(ENVIRONMENTS), None),
    "parent": (
        python("import os; os.kill(os.getppid(), 9)\nwhile True: pass"),
        "tool.exit",
    ),
    "after_parent": (python("result = 1"), None),
    "suicide": (python("import os; os.kill(os.getpid(), 11)"), "tool.exit"),
    "nan": (python("result = float('nan')"), "tool.contract"),
    "deep_nan": (python("result = {'a': [1, float('-inf')]}"), "tool.contract"),
    "object": (python("result = object()"), "tool.contract"),
    "bytes": (python("result = b'x'"), "tool.contract"),
    "cyclic": (python("result = []; result.append(result)"), "tool.contract"),
    "deep": (
        python("result = []\nfor _ in range(100000): result = [result]"),
        "tool.contract",
    ),
    "too_long": (python("result = 'x' * 70_000_000"), "tool.contract"),
    "gigabyte": (python("result = 'x' * 10**9", memory="500MiB"), "tool.memory"),
    "no_result": (python("import os; os._exit(0)"), "tool.contract"),
    "polite_exit": (python("raise SystemExit"), "tool.contract"),
    "exit_code": (python("import os; os._exit(3)"), "tool.exit"),
    "forged": (python("import os\nwhile True: os.write(4, b'x' * 100)"), "tool.exit"),
}


@pytest.fixture(scope="module")
def performed(attempt: Attempt) -> Any:
    return attempt({name: task for name, (task, _) in CODE.items()}, env=SECRETS)


@pytest.mark.parametrize("name", CODE, ids=lambda name: f"86 {name}")
def test_hostile_code(performed: Any, name: str) -> None:
    assert performed.kind(name) == CODE[name][1], performed.outcomes[name]["error"]


def test_86_code_sees_nothing_of_our_environment(performed: Any) -> None:
    """But the two names that tell which call it is."""
    seen = performed.outcomes["environ"]["result"]

    ours = [name for name in seen if name.startswith("NOETL_")]
    assert sorted(ours) == ["NOETL_ACTION_ID", "NOETL_ATTEMPT"]
    for secret in SECRETS.values():
        assert secret not in json.dumps(seen)


def test_86_a_limit_is_named_in_the_message(performed: Any) -> None:
    message = performed.outcomes["disk"]["error"]["message"]

    assert message == "OSError: a file grew above spec.disk"


def test_86_a_gigabyte_of_output_is_cut_and_takes_no_memory(attempt: Attempt) -> None:
    flood = "import sys\nfor _ in range(1000): sys.stdout.write('x' * 10**6)\n"
    plain = attempt({"quiet": python("result = 1")})

    ran = attempt(
        {
            "loud": python(flood + "result = 1"),
            "fails": python(flood + "1 / 0"),
        }
    )

    assert ran.outcomes["loud"]["result"] == 1
    assert ran.kind("fails") == "tool.exception"
    assert len(ran.outcomes["fails"]["error"]["details"]["stdout"]) <= 8192
    assert ran.megabytes - plain.megabytes <= MEGABYTES


HOLD = """
import fcntl, os, time
held = open('held', 'w')
fcntl.flock(held, fcntl.LOCK_SH)
end = time.monotonic() + 60  # if nobody kills us
"""
HYDRA = """
def live():
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
for _ in range(8):
    if not os.fork():
        live()
"""
DAEMON = """
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(60)
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("code", "spec", "kind"),
    [
        pytest.param(HYDRA + "time.sleep(60)", {"timeout": 0.5}, "timeout", id="hydra"),
        pytest.param(HYDRA + "result = 1", {}, None, id="hydra left behind"),
        pytest.param(DAEMON + "result = 1", {}, None, id="daemon"),
        pytest.param(DAEMON + "os._exit(0)", {}, "tool.contract", id="daemon, exit"),
        pytest.param(DAEMON + "1 / 0", {}, "tool.exception", id="daemon, exception"),
    ],
)
def test_86_no_process_of_a_call_survives_it(
    attempt: Attempt, code: str, spec: dict[str, Any], kind: str | None
) -> None:
    """Processes that fork and die all the time, each in a session of its own: no group
    and no number stands for them."""
    look = (
        "import fcntl\nwith open('held') as file:\n"
        "  fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\nresult = 'nobody'"
    )
    ran = attempt({"hostile": python(HOLD + code, **spec), "next": python(look)})

    assert ran.kind("hostile") == kind
    assert ran.outcomes["next"]["result"] == "nobody", ran.outcomes["next"]["error"]


@pytest.fixture
def sandbox() -> None:
    """Bubblewrap, on a machine that lets it work."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (Debian: apt-get install bubblewrap)")
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no sandbox can be made here: {done.stderr.strip()}")


FILTERED = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def refused(*call):
    name, *args = call
    return getattr(libc, name)(*args) == -1 and ctypes.get_errno() == 1
result = {
    "unshare": refused("unshare", 0x10000000),
    "mount": refused("mount", 0, b"/tmp", 0, 0, 0),
    "ptrace": refused("ptrace", 0, 0, 0, 0),
    "filter": "Seccomp:\\t2" in open("/proc/self/status").read(),
}
"""


def test_86_without_a_sandbox_system_calls_are_filtered(attempt: Attempt) -> None:
    """Damage limitation: no namespaces, mounts or traced processes, also for root."""
    status = "grep -c '^Seccomp:.*2$' /proc/self/status"
    asks = {"code": python(FILTERED), "program": shell(command=status)}
    ran = attempt(asks)

    assert set(ran.outcomes["code"]["result"].values()) == {True}, ran.outcomes["code"]
    assert ran.outcomes["program"]["result"]["stdout"] == "1\n"


@pytest.mark.usefixtures("sandbox")
def test_86_a_sandbox_sees_no_other_process(attempt: Attempt, peer: str) -> None:
    port = int(peer.rpartition(":")[2])
    asks = {
        "network": f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)",
        "init": "result = open('/proc/1/environ').read()",
        "parent": "import os\nos.kill(os.getppid(), 9)\nresult = 1",
        "others": "import os\nresult = [p for p in os.listdir('/proc') if p.isdigit()]",
        "write": "open('here', 'w').write('x')",
        "passwd": "result = open('/etc/passwd').read()",
    }
    ran = attempt(
        {name: python(code, isolation="required") for name, code in asks.items()},
        env=SECRETS,
    )

    for name in ("network", "write", "passwd"):
        assert ran.kind(name) == "tool.exception", name
    for secret in SECRETS.values():
        assert secret not in json.dumps(ran.outcomes["init"])
    assert ran.kind("parent") in (None, "tool.exception", "tool.exit")
    assert len(ran.outcomes["others"]["result"]) <= 3


def shell(**inputs: Any) -> dict[str, Any]:
    spec = inputs.pop("spec", {})
    return {"kind": "shell", **inputs, "spec": {"timeout": 30, **spec}}


HOSTILE = "$(touch owned) `touch owned`; touch owned"
SHELL = {
    "argv": (shell(command=["printf", "%s", "{{ workload.hostile }}"]), None),
    "env": (shell(command='printf %s "$X"', env={"X": "{{ workload.hostile }}"}), None),
    "stdin": (shell(command="cat", stdin="{{ workload.hostile }}"), None),
    "nul": (shell(command=["echo", "a\0b"]), "tool.contract"),
    "nul_in_text": (shell(command="echo a\0b"), "tool.contract"),
    "nul_in_env": (shell(command="true", env={"X": "a\0b"}), "tool.contract"),
    "argv_of_a_megabyte": (shell(command=["echo", "x" * 1_000_000]), "tool.exit"),
    "long_text": (shell(command="# {{ 'x' * 250000 }}"), None),
    "binary": (shell(command="printf '\\377\\000\\200'"), None),
    "signal": (shell(command="kill -SEGV $$"), "tool.exit"),
    "code": (shell(command="exit 3"), "tool.exit"),
    "missing": (shell(command=["no-such-program"]), "tool.exit"),
    "endless": (shell(command="while :; do :; done", spec={"timeout": 0.3}), "timeout"),
    "disk": (
        shell(command="dd if=/dev/zero of=big bs=1M count=9", spec={"disk": "5MB"}),
        "tool.disk",
    ),
}


@pytest.fixture(scope="module")
def executed(attempt: Attempt) -> Any:
    tasks = {name: task for name, (task, _) in SHELL.items()}
    return attempt(tasks, root={"workload": {"hostile": HOSTILE}})


@pytest.mark.parametrize("name", SHELL, ids=lambda name: f"87 {name}")
def test_a_hostile_command(executed: Any, name: str) -> None:
    assert executed.kind(name) == SHELL[name][1], executed.outcomes[name]["error"]


def test_87_values_are_values(executed: Any) -> None:
    for name in ("argv", "env", "stdin"):
        assert executed.outcomes[name]["result"]["stdout"] == HOSTILE
    assert not (executed.home.parent / "owned").exists()


def test_87_the_outcome_has_the_exit_code_or_signal(executed: Any) -> None:
    details = {
        name: executed.outcomes[name]["error"]["details"] for name in ("code", "signal")
    }

    assert details["code"]["exit_code"] == 3
    assert (details["signal"]["exit_code"], details["signal"]["signal"]) == (
        139,
        "SIGSEGV",
    )


def test_87_undecodable_output_is_replaced(executed: Any) -> None:
    assert executed.outcomes["binary"]["result"]["stdout"] == "\ufffd\0\ufffd"


def test_87_a_template_inside_shell_text_is_a_warning(validate: Validate) -> None:
    playbook = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "t", "path": "tests/t"},
        "workload": {"name": ""},
        "workflow": [
            {
                "step": "start",
                "tool": {"kind": "shell", "command": "ls {{ workload.name }}"},
            }
        ],
    }
    answer = validate(json.dumps(playbook).encode(), "--json")

    found = [(each["rule"], each["severity"]) for each in answer.findings]
    assert ("shell-interpolation", "warning") in found

"""Settings: which of their sources wins, and what is said about mistakes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from noetl.adapters.plugins.result_stores import open_known
from noetl.config import (
    EXTENSIONS,
    FILES_ROOTS,
    HOME,
    LIMITS_EXECUTION_EVENTS,
    LIMITS_TOOL_TIME,
    NETWORK_PRIVATE,
    POOLS_CODE,
    RESULTS_URL,
    SETTINGS,
    SLOTS,
    Setting,
    ceilings_of,
    read_extensions,
    read_settings,
    strays,
    worker_ceilings,
)
from noetl.config.host import Role, host_policy
from noetl.errors import ConfigError
from noetl.extras import install_command

SECRET = Setting(
    name="key",
    words="16 letters",
    doc="A secret, to see that it stays one.",
    parse=lambda value, _: _sixteen(value),
    default=lambda: None,
    default_words="none",
    secret=True,
)


def _sixteen(text: str) -> str:
    if len(text) != 16:
        raise ValueError
    return text


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def in_home(home: Path, text: str) -> dict[str, str]:
    """An environment whose home has this configuration file."""
    home.mkdir()
    (home / "config.toml").write_text(text)
    return {"NOETL_HOME": str(home)}


def named(folder: Path, text: str) -> dict[str, str]:
    """An environment that names this configuration file."""
    (folder / "my.toml").write_text(text)
    return {"NOETL_CONFIG": str(folder / "my.toml")}


def test_without_anything_the_defaults_hold(home: Path) -> None:
    settings = read_settings({"NOETL_HOME": str(home)})

    assert settings[HOME] == home
    assert settings[EXTENSIONS] == frozenset()
    assert settings[SLOTS] == 16
    origins = {value.setting.name: value.origin for value in settings}
    assert origins.pop("home") == "environment"
    assert set(origins.values()) == {"default"}


def test_the_environment_wins_over_the_file_and_that_over_the_default(
    home: Path,
) -> None:
    environ = in_home(home, 'extensions = ["legacy"]\nslots = 3\n')

    settings = read_settings({**environ, "NOETL_SLOTS": "5"})

    found = {value.setting.name: (value.value, value.place) for value in settings}
    assert found["slots"] == (5, "NOETL_SLOTS")
    assert found["extensions"] == (frozenset({"legacy"}), f"{home}/config.toml:1")


def test_a_file_that_is_named_replaces_that_of_the_home(home: Path) -> None:
    environ = in_home(home, "slots = 3\n")

    settings = read_settings({**environ, **named(home, "slots = 7\n")})

    assert settings[SLOTS] == 7


def test_a_path_in_a_file_starts_at_its_folder(tmp_path: Path) -> None:
    assert read_settings(named(tmp_path, 'home = "h"'))[HOME] == tmp_path / "h"


def test_an_empty_variable_is_none(home: Path) -> None:
    assert read_settings({"NOETL_HOME": str(home), "NOETL_SLOTS": ""})[SLOTS] == 16


@pytest.mark.spec("S-01")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('extensions = ["legacy", "classic"]', {"legacy", "classic"}),
        ('extensions = "legacy, classic"', {"legacy", "classic"}),
        ("extensions = []", set()),
    ],
)
def test_a_file_says_extensions_as_a_list_or_as_a_variable_does(
    home: Path, text: str, expected: set[str]
) -> None:
    assert read_settings(in_home(home, text))[EXTENSIONS] == expected


@pytest.mark.spec("S-01")
def test_a_flag_adds_to_the_operators_extensions(home: Path) -> None:
    settings = read_settings(in_home(home, 'extensions = ["legacy"]'))

    assert read_extensions("classic", settings) == {"legacy", "classic"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "\nslot = 3",
            ":2: unknown setting 'slot'; did you mean 'slots'?",
            id="an unknown key",
        ),
        pytest.param(
            "[remote]\nurl = 1",
            ":1: unknown setting 'remote'; noetl config lists all of them",
            id="an unknown table",
        ),
        pytest.param(
            "# slots\nslots = 'many'",
            ":2: slots: expected a whole number from 1 to 1024, found 'many'",
            id="a wrong type",
        ),
        pytest.param("slots = true", "found True", id="a boolean"),
        pytest.param("slots = 0", "found 0", id="out of range"),
        pytest.param("slots = 1.5", "found 1.5", id="a fraction"),
        pytest.param("extensions = 3", "found 3", id="no names"),
        pytest.param("plugins = ['a b']", "'a b' is not the name", id="no package"),
        pytest.param("results_url = 'folder'", "found 'folder'", id="no address"),
        pytest.param(
            "results_url = 'x://u:p@h'", "not contain a credential", id="a password"
        ),
        pytest.param(
            "extensions = ['lgacy']",
            ":1: extensions: unknown extension 'lgacy' (legacy?)",
            id="nearly an extension",
        ),
        pytest.param("slots =\n", ":1:8: not TOML: Invalid value", id="no TOML"),
        pytest.param('slots = "', ": not TOML: ", id="no TOML to its end"),
        pytest.param(
            'home = "/x"', ":1: home: the file is already in the home", id="its home"
        ),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_line_and_column(
    home: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(in_home(home, text))

    assert str(caught.value).startswith(f"{home}/config.toml:")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NOETL_SLOTS", "1_6", "expected a whole number from 1 to 1024, found '1_6'"),
        ("NOETL_SLOTS", "-1", "found '-1'"),
        ("NOETL_SLOTS", "9999", "found '9999'"),
        ("NOETL_EXTENSIONS", "a b", "unknown extension 'a b' (legacy, classic?)"),
        ("NOETL_HOME", " ", "expected a folder, found ' '"),
        ("NOETL_POOLS_CODE", "*,gpu", "* for every pool, or none, found '*,gpu'"),
        ("NOETL_POOLS_CODE", "none,gpu", "or none, found 'none,gpu'"),
        ("NOETL_LIMITS_TOOL_TIME", "0", "a duration from 1s to 366d"),
        ("NOETL_LIMITS_TOOL_TIME", "400d", "a duration from 1s to 366d"),
        ("NOETL_LIMITS_EXECUTIONS", "sales/*", "paths with numbers"),
        ("NOETL_LIMITS_EXECUTIONS", "sales*=1", "paths with numbers"),
        ("NOETL_LIMITS_EXECUTIONS", "a=1, a=2", "paths with numbers"),
        ("NOETL_LIMITS_EXECUTION_EVENTS", "999", "from 1000 to 1000000000"),
    ],
)
def test_a_mistake_in_a_variable_names_it(
    home: Path, name: str, value: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: ") as caught:
        read_settings({"NOETL_HOME": str(home), name: value})

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "cannot be read: No such file", id="not there"),
        pytest.param(b"slots = \xff", "not UTF-8", id="bytes"),
        pytest.param(b"#" * 2_000_000, "larger than 1,048,576 bytes", id="endless"),
        pytest.param(b"a = " + b"[" * 5_000, "not TOML", id="too deep"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "my.toml"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        read_settings({"NOETL_CONFIG": str(file)})

    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)


@pytest.mark.spec("S-41")
def test_a_secret_is_not_shown_or_quoted(home: Path) -> None:
    table = (*SETTINGS, SECRET)
    environ = {"NOETL_HOME": str(home), "NOETL_KEY": "abcdefghijklmnop"}

    shown = {
        value.setting.name: value.shown() for value in read_settings(environ, table)
    }
    assert shown["key"] == "***"
    del environ["NOETL_KEY"]
    shown = {
        value.setting.name: value.shown() for value in read_settings(environ, table)
    }
    assert shown["key"] is None
    with pytest.raises(ConfigError) as caught:
        read_settings({**environ, "NOETL_KEY": "too-short"}, table)
    assert str(caught.value) == "NOETL_KEY: expected 16 letters"


def test_variables_that_were_probably_meant_are_found() -> None:
    environ = {
        "NOETL_EXTENSION": "legacy",
        "NOETL_SLOTS": "3",
        "NOETL_ACTION_ID": "a1",
        "NOETL_CONFIG": "x",
        "SLOT": "3",
    }

    assert strays(environ) == [
        "NOETL_EXTENSION sets nothing; did you mean NOETL_EXTENSIONS?"
    ]


def test_names_are_those_of_variables() -> None:
    assert [setting.variable for setting in SETTINGS] == [
        "NOETL_HOME",
        "NOETL_EXTENSIONS",
        "NOETL_SLOTS",
        "NOETL_PLUGINS",
        "NOETL_RESULTS_URL",
        "NOETL_HOST",
        "NOETL_PORT",
        "NOETL_HOSTS",
        "NOETL_BEHIND_PROXY",
        "NOETL_SERVER",
        "NOETL_TOKEN",
        "NOETL_DATABASE",
        "NOETL_DATABASE_OWNER",
        "NOETL_DATABASE_TIMEOUT",
        "NOETL_NATS",
        "NOETL_NATS_REPLICAS",
        "NOETL_NATS_CA",
        "NOETL_NATS_CERT",
        "NOETL_NATS_KEY",
        "NOETL_NATS_BUCKETS",
        "NOETL_LEASE_TTL",
        "NOETL_START_RATE",
        "NOETL_FAMILY_LIMIT",
        "NOETL_ANSWER_LINKS",
        "NOETL_WORKER_PROXY",
        "NOETL_FILES_ROOTS",
        "NOETL_NETWORK_PRIVATE",
        "NOETL_ISOLATION",
        "NOETL_ISOLATION_NETWORK",
        "NOETL_LIMITS_MEMORY",
        "NOETL_LIMITS_PROCESSES",
        "NOETL_POOLS_CODE",
        "NOETL_LIMITS_TOOL_TIME",
        "NOETL_LIMITS_EXECUTION_EVENTS",
        "NOETL_LIMITS_EXECUTIONS",
        "NOETL_RETENTION",
        "NOETL_ARCHIVE_URL",
        "NOETL_RETENTION_AUDIT",
        "NOETL_PROXIES",
        "NOETL_TLS_CERT",
        "NOETL_TLS_KEY",
        "NOETL_CA",
        "NOETL_KEYCHAIN_KEY",
        "NOETL_PUBLIC_URL",
        "NOETL_OIDC_ISSUER",
        "NOETL_OIDC_CLIENT_ID",
        "NOETL_OIDC_CLIENT_SECRET",
        "NOETL_OIDC_ROLES_CLAIM",
        "NOETL_OIDC_ROLES",
        "NOETL_LOG_LEVEL",
        "NOETL_LOG_FORMAT",
        "NOETL_OTLP_ENDPOINT",
        "NOETL_OTLP_HEADERS",
        "NOETL_OTLP_SIGNALS",
        "NOETL_CLICKHOUSE_URL",
    ]


@pytest.mark.spec("RES-07")
@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/some/folder/", "s3://bucket/some/folder"),
        ("gs://bucket/x", "gs://bucket/x"),
        ("az://container/x", "az://container/x"),
        ("file:///srv/results", "file:///srv/results"),
    ],
)
def test_results_can_be_stored_elsewhere(given: str, url: str) -> None:
    settings = read_settings({"NOETL_RESULTS_URL": given})

    assert settings[RESULTS_URL] == url


@pytest.mark.parametrize("given", ["s3:", "s3://", "results", "file://h"])
def test_an_invalid_store_is_reported(given: str) -> None:
    with pytest.raises(ConfigError, match="expected s3://bucket/folder, gs://"):
        read_settings({"NOETL_RESULTS_URL": given})


@pytest.mark.parametrize(
    "given", ["s3://AKIA:hush@bucket", "az://c/x?sig=hush", "gs://b/x#hush"]
)
def test_a_credential_in_a_url_is_refused_and_not_quoted(given: str) -> None:
    with pytest.raises(ConfigError, match="not contain a credential") as caught:
        read_settings({"NOETL_RESULTS_URL": given})

    assert "hush" not in str(caught.value)


def test_a_store_that_needs_an_extra_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "noetl.adapters.blobs.object_store"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)

    with pytest.raises(ConfigError) as caught:
        open_known("s3://bucket/x", str(tmp_path), str(tmp_path), "home")

    assert "s3://bucket/x need the package obstore" in str(caught.value)
    assert install_command("objects") in str(caught.value)


def test_a_table_of_the_file_holds_settings_of_one_group(tmp_path: Path) -> None:
    file = tmp_path / "noetl.toml"
    file.write_text('[files]\nroots = ["data"]\n[network]\nprivate = ["10.1.0.0/16"]\n')

    settings = read_settings({"NOETL_CONFIG": str(file), "NOETL_HOME": str(tmp_path)})

    assert settings[FILES_ROOTS] == (str(tmp_path / "data"),)
    assert settings[NETWORK_PRIVATE] == ("10.1.0.0/16",)
    places = {each.setting.name: each.place for each in settings}
    assert places["files_roots"] == f"{file}:2"


@pytest.mark.parametrize(
    ("role", "text", "memory"),
    [
        ("server", None, 4 * 1024**3),
        ("personal", None, 4 * 1024**3),
        ("embedded", None, None),
        ("server", "none", None),
        ("server", "8GiB", 8 * 1024**3),
        ("embedded", "512MiB", 512 * 1024**2),
    ],
)
def test_the_memory_of_code_follows_the_role_and_the_setting(
    tmp_path: Path, role: Role, text: str | None, memory: int | None
) -> None:
    settings = read_settings({} if text is None else {"NOETL_LIMITS_MEMORY": text})

    assert host_policy(settings, tmp_path, role).memory == memory


def test_limits_are_a_table_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "noetl.toml"
    file.write_text('[limits]\nmemory = "1.5GiB"\nprocesses = 64\n')

    policy = host_policy(read_settings({"NOETL_CONFIG": str(file)}), tmp_path, "server")

    assert (policy.memory, policy.processes) == (3 * 1024**3 // 2, 64)


@pytest.mark.parametrize("text", ["much", "255MiB", "0", "-1GiB", "true"])
def test_memory_must_be_a_size(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings({"NOETL_LIMITS_MEMORY": text})

    expected = "expected a size of at least 256MiB, such as 4GiB, or none"
    assert f"NOETL_LIMITS_MEMORY: {expected}" in str(caught.value)


def test_limits_of_the_operator_are_tables_of_a_file(home: Path) -> None:
    text = '[pools]\ncode = []\n[limits]\ntool_time = "90m"\nexecution_events = 5000\n'
    settings = read_settings(in_home(home, text))

    assert settings[POOLS_CODE] == frozenset()
    assert settings[LIMITS_TOOL_TIME] == 5400.0
    assert settings[LIMITS_EXECUTION_EVENTS] == 5000


@pytest.mark.parametrize(
    ("stated", "embedded", "server", "worker"),
    [
        pytest.param("", "*", "default", "*", id="nothing stated"),
        pytest.param("gpu, default", *["default,gpu"] * 3, id="some pools"),
        pytest.param("none", "", "", "", id="no pool"),
        pytest.param("*", "*", "*", "*", id="every pool"),
    ],
)
def test_which_pools_run_code_depends_on_the_role(
    home: Path, stated: str, embedded: str, server: str, worker: str
) -> None:
    settings = read_settings({"NOETL_HOME": str(home), "NOETL_POOLS_CODE": stated})
    found = [
        ceilings_of(settings, "embedded"),
        ceilings_of(settings, "server"),
        ceilings_of(settings, "personal"),
        worker_ceilings(settings),
    ]

    shown = [",".join(sorted(each.code_pools)) for each in found]
    assert shown == [embedded, server, server, worker]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("otlp_endpoint", "https://c.example.com:4318/", "https://c.example.com:4318"),
        ("otlp_headers", "A=1, X-B=x=y", {"A": "1", "X-B": "x=y"}),
        ("otlp_signals", "traces", frozenset({"traces"})),
        (
            "clickhouse_url",
            "http://u:p@h:8123/?table=d.events",
            "http://u:p@h:8123/?table=d.events",
        ),
    ],
)
def test_receivers_of_exports_are_read(name: str, text: str, value: object) -> None:
    found = {each.setting.name: each for each in read_settings({_variable(name): text})}

    assert found[name].value == value
    secret = found[name].setting.secret
    assert secret is (name in ("otlp_headers", "clickhouse_url"))
    assert (found[name].shown() == "***") is secret


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("otlp_endpoint", "c.example.com:4318"),
        ("otlp_endpoint", "file:///etc/passwd"),
        ("otlp_endpoint", "https://u:p@c.example.com"),
        ("otlp_endpoint", "https://c.example.com?token=x"),
        ("otlp_headers", "Authorization"),
        ("otlp_headers", "A=1\r\nB: 2"),
        ("otlp_headers", "A B=1"),
        ("otlp_signals", "metrics"),
        ("otlp_signals", ","),
        ("clickhouse_url", "clickhouse://h"),
        ("clickhouse_url", "http://h/?table=x;DROP TABLE y"),
        ("clickhouse_url", "http://h/?query=SELECT 1"),
        ("clickhouse_url", "http://h/path"),
        ("clickhouse_url", "http://h/?table"),
    ],
)
def test_a_wrong_receiver_of_exports_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=_variable(name)) as caught:
        read_settings({_variable(name): text})

    if name in ("otlp_headers", "clickhouse_url"):
        assert "found" not in str(caught.value), "it may hold a credential"


def _variable(name: str) -> str:
    return f"NOETL_{name.upper()}"

"""All settings, each with its text in the reference."""

from __future__ import annotations

from typing import Any

from noetl.config.broker import BROKER
from noetl.config.host import HOST_SETTINGS
from noetl.config.limits import LIMIT_SETTINGS
from noetl.config.retention import RETENTION_SETTINGS
from noetl.config.security import SECURITY
from noetl.config.setting import (
    Setting,
    default_home,
    in_the_home,
    parse_database,
    parse_extensions,
    parse_home,
    parse_hosts,
    parse_plugins,
    parse_port,
    parse_proxy,
    parse_rate,
    parse_results_url,
    parse_server,
    parse_slots,
    parse_switch,
    parse_text,
    parse_token,
    parse_ttl,
)
from noetl.config.telemetry import TELEMETRY
from noetl.dsl.grammar.earlier_forms import DIALECTS

HOME = Setting(
    name="home",
    words="a folder",
    doc="The folder of the embedded event log, results and secrets. In a configuration "
    "file a relative path starts at the file's folder.",
    parse=parse_home,
    default=default_home,
    default_words="~/.noetl",
)
EXTENSIONS = Setting(
    name="extensions",
    words=f"names separated by commas ({', '.join(DIALECTS)})",
    doc="Dialects that every playbook may use, besides those of a command's "
    "`--extensions`. `-legacy` denies a dialect, also to `--extensions` and playbooks. "
    "A configuration file may have a list.",
    parse=parse_extensions,
    default=frozenset[str],
    default_words="none",
)
SLOTS = Setting(
    name="slots",
    words="a whole number from 1 to 1024",
    doc="The number of tasks that the embedded runtime runs at the same time.",
    parse=parse_slots,
    default=lambda: 16,
    default_words="16",
)
PLUGINS = Setting(
    name="plugins",
    words="names of packages separated by commas",
    doc="Installed packages whose plug-ins are loaded; other packages are not "
    "imported. A configuration file may have a list.",
    parse=parse_plugins,
    default=frozenset[str],
    default_words="none",
)
RESULTS_URL = Setting(
    name="results_url",
    words="s3://bucket/folder, gs://bucket/folder, az://container/folder, "
    "file:///folder or an address for a plug-in, without credentials and options",
    doc="The store of values that are too large for the log. Credentials come from the "
    "cloud's own variables (`AWS_…`, `GOOGLE_…`, `AZURE_…`), not from the URL. Enabled "
    "plug-ins add other schemes. A playbook may choose another store "
    "(`executor.spec.result.store`).",
    parse=parse_results_url,
    default=in_the_home,
    default_words="`results` in the home; for a server with a database, its rows",
)
HOST = Setting(
    name="host",
    words="an address of this machine",
    doc="The address on which `noetl server start` listens.",
    parse=parse_text,
    default=lambda: "127.0.0.1",
    default_words="127.0.0.1",
)
HOSTS = Setting(
    name="hosts",
    words="names separated by commas (noetl.example.com)",
    doc="Names by which clients reach the server, besides those of this machine; a "
    "request for another name is refused. A configuration file may have a list.",
    parse=parse_hosts,
    default=frozenset[str],
    default_words="none",
)
BEHIND_PROXY = Setting(
    name="behind_proxy",
    words="true or false",
    doc="Clients reach the server through a proxy that terminates TLS, and adds their "
    "address to `X-Forwarded-For`.",
    parse=parse_switch,
    default=lambda: False,
    default_words="false",
)
PORT = Setting(
    name="port",
    words="a whole number from 0 to 65535",
    doc="The port of `noetl server start`; 0 chooses a free one.",
    parse=parse_port,
    default=lambda: 8082,
    default_words="8082",
)
SERVER = Setting(
    name="server",
    words="the address of a server: http://127.0.0.1:8082",
    doc="The server that commands use. Without it, the server of this home, or else "
    "the embedded store.",
    parse=parse_server,
    default=lambda: None,
    default_words="none",
)
DATABASE = Setting(
    name="database",
    words="the address of a PostgreSQL server: postgresql://user@host/name",
    doc="The PostgreSQL in which servers keep the log, the catalog and secrets of "
    "running executions. Without it, the PostgreSQL that `noetl up` runs under this "
    "home; without that, a server keeps them in its home and runs all tasks itself.",
    parse=parse_database,
    default=lambda: None,
    default_words="none",
    secret=True,
)
DATABASE_OWNER = Setting(
    name="database_owner",
    words="the address of a PostgreSQL server: postgresql://owner@host/name",
    doc="The same PostgreSQL as `database`, with the role that owns the tables. A "
    "starting server migrates the tables with it, and grants the role of `database` "
    "the rights of a server: to append to the log, and not to change it. Without it "
    "the role of `database` owns the tables.",
    parse=parse_database,
    default=lambda: None,
    default_words="none",
    secret=True,
)
DATABASE_TIMEOUT = Setting(
    name="database_timeout",
    words="seconds, from 1 to 3600",
    doc="The time after which PostgreSQL cancels a statement of a server, unless it "
    "changes tables; 10 seconds later the server closes a connection that is silent. A "
    "server that freezes inside a transaction loses its locks after this time.",
    parse=parse_ttl,
    default=lambda: 30.0,
    default_words="30",
)
LEASE_TTL = Setting(
    name="lease_ttl",
    words="seconds, from 1 to 3600",
    doc="The time after which another worker takes over the tasks of a silent one.",
    parse=parse_ttl,
    default=lambda: 30.0,
    default_words="30",
)
START_RATE = Setting(
    name="start_rate",
    words="a whole number from 1 to 1000000",
    doc="The number of executions that one caller may start per second on a server; a "
    "burst may have four times as many.",
    parse=parse_rate,
    default=lambda: 500,
    default_words="500",
)
FAMILY_LIMIT = Setting(
    name="family_limit",
    words="a whole number from 1 to 1000000",
    doc="The maximum number of unfinished executions with the same root, including "
    "children of children, on a server. The task that would start one more fails with "
    "`playbook.family`. The limit is soft: an ended child frees its place within a "
    "second, and servers on one database share their counts within a second.",
    parse=parse_rate,
    default=lambda: 10_000,
    default_words="10000",
)
ANSWER_LINKS = Setting(
    name="answer_links",
    words="true or false",
    doc="Allows links on a server that answer one question of an execution without a "
    "sign-in: each has one answer, one use and an end. A person who has the link can "
    "give its answer.",
    parse=parse_switch,
    default=lambda: False,
    default_words="false",
)
TOKEN = Setting(
    name="token",
    words="a token",
    doc="The token that commands send to the server. Without it, the file `token` of "
    "the home.",
    parse=parse_token,
    default=lambda: None,
    default_words="none",
    secret=True,
)
WORKER_PROXY = Setting(
    name="worker_proxy",
    words="the address of an HTTP proxy: http://user:password@proxy.example.com:3128",
    doc="The proxy through which workers reach their servers. TLS stays between worker "
    "and server, so give servers as `https://`. Servers on this machine (localhost, "
    "127.0.0.1, ::1) are reached without it.",
    parse=parse_proxy,
    default=lambda: None,
    default_words="none",
    secret=True,
)
SETTINGS: tuple[Setting[Any], ...] = (
    HOME,
    EXTENSIONS,
    SLOTS,
    PLUGINS,
    RESULTS_URL,
    HOST,
    PORT,
    HOSTS,
    BEHIND_PROXY,
    SERVER,
    TOKEN,
    DATABASE,
    DATABASE_OWNER,
    DATABASE_TIMEOUT,
    *BROKER,
    LEASE_TTL,
    START_RATE,
    FAMILY_LIMIT,
    ANSWER_LINKS,
    WORKER_PROXY,
    *HOST_SETTINGS,
    *LIMIT_SETTINGS,
    *RETENTION_SETTINGS,
    *SECURITY,
    *TELEMETRY,
)

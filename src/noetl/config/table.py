"""Every setting, with its line in the reference."""

from __future__ import annotations

from typing import Any

from noetl.config.host import HOST_SETTINGS
from noetl.config.parsing import (
    default_home,
    in_the_home,
    parse_database,
    parse_extensions,
    parse_home,
    parse_hosts,
    parse_nats,
    parse_plugins,
    parse_port,
    parse_rate,
    parse_results_url,
    parse_server,
    parse_slots,
    parse_switch,
    parse_text,
    parse_token,
    parse_ttl,
)
from noetl.config.security import SECURITY
from noetl.config.setting import Setting
from noetl.dsl.grammar.dialects import DIALECTS

HOME = Setting(
    name="home",
    words="a folder",
    doc="Holds the embedded event log, results and secrets. In a configuration file "
    "a relative path starts at the file's folder.",
    parse=parse_home,
    default=default_home,
    default_words="~/.noetl",
)
EXTENSIONS = Setting(
    name="extensions",
    words=f"names with commas between them ({', '.join(DIALECTS)})",
    doc="Dialects that every playbook may use, besides those that a command's "
    "`--extensions` adds. `-legacy` denies one, whoever asks for it. In a "
    "configuration file a list will do, too.",
    parse=parse_extensions,
    default=frozenset[str],
    default_words="none",
)
SLOTS = Setting(
    name="slots",
    words="a whole number from 1 to 1024",
    doc="How many tasks the embedded runtime works on at the same time.",
    parse=parse_slots,
    default=lambda: 16,
    default_words="16",
)
PLUGINS = Setting(
    name="plugins",
    words="names of packages with commas between them",
    doc="Installed packages whose plug-ins are loaded; of others nothing is imported. "
    "In a configuration file a list will do, too.",
    parse=parse_plugins,
    default=frozenset[str],
    default_words="none",
)
RESULTS_URL = Setting(
    name="results_url",
    words="s3://bucket/folder, gs://bucket/folder, az://container/folder, "
    "file:///folder or an address for a plug-in, without credentials and options",
    doc="Where values go that are too large for the log. Credentials are what the "
    "cloud's own variables say (`AWS_…`, `GOOGLE_…`, `AZURE_…`), not part of the URL. "
    "Enabled plug-ins bring other schemes. A playbook may choose another store "
    "(`executor.spec.result.store`).",
    parse=parse_results_url,
    default=in_the_home,
    default_words="`results` in the home; of a server with a database, its rows",
)
HOST = Setting(
    name="host",
    words="an address of this machine",
    doc="Where `noetl server start` listens.",
    parse=parse_text,
    default=lambda: "127.0.0.1",
    default_words="127.0.0.1",
)
HOSTS = Setting(
    name="hosts",
    words="names with commas between them (noetl.example.com)",
    doc="Names by which clients reach the server, besides those of this machine; a "
    "request for another one is refused. In a configuration file a list will do, too.",
    parse=parse_hosts,
    default=frozenset[str],
    default_words="none",
)
BEHIND_PROXY = Setting(
    name="behind_proxy",
    words="true or false",
    doc="Clients reach the server through a proxy that speaks TLS with them, and adds "
    "their address to `X-Forwarded-For`.",
    parse=parse_switch,
    default=lambda: False,
    default_words="false",
)
PORT = Setting(
    name="port",
    words="a whole number from 0 to 65535",
    doc="The port of `noetl server start`; 0 takes any that is free.",
    parse=parse_port,
    default=lambda: 8082,
    default_words="8082",
)
SERVER = Setting(
    name="server",
    words="the address of a server: http://127.0.0.1:8082",
    doc="The server that commands talk to. Without it, the one that runs under this "
    "home, or else the embedded store.",
    parse=parse_server,
    default=lambda: None,
    default_words="none",
)
DATABASE = Setting(
    name="database",
    words="the address of a PostgreSQL: postgresql://user@host/name",
    doc="Where servers keep log, catalog and secrets that are under way. Without it, "
    "in the PostgreSQL that `noetl up` runs under this home; without that, a server "
    "keeps them in its home and does all the work itself.",
    parse=parse_database,
    default=lambda: None,
    default_words="none",
    secret=True,
)
DATABASE_OWNER = Setting(
    name="database_owner",
    words="the address of a PostgreSQL: postgresql://owner@host/name",
    doc="The same PostgreSQL as `database`, by the role that owns the tables. A server "
    "that starts brings the tables up to date by it, and grants the role of `database` "
    "what servers need: they may add to the log, and not change it. Without it the "
    "role of `database` owns the tables.",
    parse=parse_database,
    default=lambda: None,
    default_words="none",
    secret=True,
)
NATS = Setting(
    name="nats",
    words="the address of a NATS: nats://token@host:4222",
    doc="Where sessions are kept, and by which servers on one database tell each "
    "other of new work. Without it, the NATS that `noetl up` runs under this home; "
    "without that, sessions are in the home, and servers look for work once a second. "
    "It also keeps results of playbooks that choose `nats_object`.",
    parse=parse_nats,
    default=lambda: None,
    default_words="none",
    secret=True,
)
LEASE_TTL = Setting(
    name="lease_ttl",
    words="seconds, from 1 to 3600",
    doc="How long a worker of a server may be silent before another one takes over.",
    parse=parse_ttl,
    default=lambda: 30.0,
    default_words="30",
)
START_RATE = Setting(
    name="start_rate",
    words="a whole number from 1 to 1000000",
    doc="Executions that one caller may start in a second of a server; four seconds' "
    "worth of them at once.",
    parse=parse_rate,
    default=lambda: 500,
    default_words="500",
)
TOKEN = Setting(
    name="token",
    words="a token",
    doc="What commands show to the server. Without it, the file `token` of the home.",
    parse=parse_token,
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
    NATS,
    LEASE_TTL,
    START_RATE,
    *HOST_SETTINGS,
    *SECURITY,
)

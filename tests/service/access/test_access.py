"""The gate, signing in and out, and what admins do, on the embedded stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import nats
import pytest
from nats_servers import NatsServer

from noetl.access.accounts import Account
from noetl.access.credentials import (
    API,
    Credential,
    digest_session,
    mint,
    read_credential,
)
from noetl.access.oidc import Identity
from noetl.access.permissions import Principal, allows, read_grants
from noetl.access.sessions import Lifetime, Session
from noetl.adapters.accounts.passwords import Argon2Passwords
from noetl.adapters.accounts.tables import SqlAccounts
from noetl.adapters.sessions.nats import NatsSessions
from noetl.adapters.sessions.sqlite import SqliteSessions
from noetl.adapters.sql_database import SqliteFile
from noetl.errors import AccessError
from noetl.ports.access import StoredSession
from noetl.service.access.accounts import AccountService
from noetl.service.access.authenticate import Authenticator
from noetl.service.access.sign_in import SignedIn, SignInService

NOW = 1_800_000_000.0
PASSWORD = "correct horse battery"
IP = "10.0.0.7"
DAY = 86400.0
ANN = Identity(
    issuer="https://id.example.com",
    subject="auth0|7",
    email="ann@example.com",
    display_name="Ann",
    grants=read_grants(["viewer"]),
)


class Moving:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError


class Server:
    """What a server is made of, as far as access goes."""

    def __init__(self, file: SqliteFile) -> None:
        self.clock = Moving()
        self.accounts = SqlAccounts(file)
        self.sessions = SqliteSessions(file)
        parts = (self.accounts, self.sessions, Argon2Passwords(), self.clock)
        self.people = AccountService(*parts)
        self.logins = SignInService(*parts)
        self.gate = Authenticator(self.accounts, self.sessions, self.clock)

    async def ann(self, *roles: str) -> Account:
        return await self.people.add("ann", roles or ["viewer"], password=PASSWORD)

    async def come(self, signed_in: SignedIn) -> Principal:
        return await self.gate.admit(cookie(signed_in))


def cookie(signed_in: SignedIn) -> Credential:
    header = [f"noetl_session={signed_in.token}"]
    found = read_credential([], header, secure=False)
    assert found is not None
    return found


def bearer(text: str) -> Credential:
    found = read_credential([f"Bearer {text}"], [], secure=False)
    assert found is not None
    return found


def run(path: Path, work: Callable[[Server], Awaitable[None]]) -> None:
    @asynccontextmanager
    async def server() -> AsyncIterator[Server]:
        file = SqliteFile.open(path / "access.db")
        try:
            yield Server(file)
        finally:
            await file.close()

    async def main() -> None:
        async with server() as made:
            await work(made)

    asyncio.run(main())


async def refused(asking: Awaitable[object], kind: str, status: int) -> AccessError:
    with pytest.raises(AccessError) as e:
        await asking
    assert (e.value.kind, e.value.status) == (kind, status)
    return e.value


@pytest.mark.spec("SES-04", "SES-05", "SES-07")
def test_a_password_opens_a_session_until_its_owner_signs_out(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        account = await server.ann("operator:finance/*")
        done = await server.logins.by_password(" Ann ", PASSWORD, IP)

        principal = await server.come(done)
        assert principal.user_id == account.user_id
        assert principal.means == "session"
        assert principal.credential == done.session.session_id
        assert allows(principal, "executions:run", "finance/x")
        assert not allows(principal, "executions:run", "hr/x")
        assert done.token not in repr(done)

        await server.logins.sign_out(cookie(done).digest)
        await refused(server.come(done), "auth.required", 401)

    run(tmp_path, work)


@pytest.mark.spec("SES-06", "SES-09")
def test_activity_keeps_a_session_for_a_week_at_most(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        done = await server.logins.by_password("ann", PASSWORD, IP)
        for _ in range(10):
            server.clock.time += 0.69 * DAY
            await server.come(done)
        server.clock.time = NOW + 7 * DAY
        await refused(server.come(done), "auth.required", 401)

    run(tmp_path, work)


@pytest.mark.spec("SES-05", "SES-09")
def test_a_day_without_activity_ends_it(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        done = await server.logins.by_password("ann", PASSWORD, IP)
        server.clock.time += DAY
        await refused(server.come(done), "auth.required", 401)

    run(tmp_path, work)


@pytest.mark.spec("SES-06")
def test_within_a_minute_nothing_is_written(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        done = await server.logins.by_password("ann", PASSWORD, IP)
        key = cookie(done).digest
        for seconds in (30.0, 29.9):
            server.clock.time += seconds
            await server.come(done)
        assert len(await server.sessions.history(key)) == 1
        server.clock.time += 0.1
        await server.come(done)
        assert len(await server.sessions.history(key)) == 2

    run(tmp_path, work)


@pytest.mark.spec("S-63")
def test_many_requests_at_once_all_pass_and_one_notes_it(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        done = await server.logins.by_password("ann", PASSWORD, IP)
        server.clock.time += 3600
        await asyncio.gather(*(server.come(done) for _ in range(20)))

        assert len(await server.sessions.history(cookie(done).digest)) == 2

    run(tmp_path, work)


@pytest.mark.spec("S-63")
def test_a_session_that_is_ended_while_it_is_renewed_stays_ended(
    tmp_path: Path,
) -> None:
    class Ending(SqliteSessions):
        async def touch(
            self, kept: StoredSession, session: Session, *, now: float
        ) -> StoredSession | None:
            await self.invalidate(kept.key)
            return await super().touch(kept, session, now=now)

    async def work(server: Server) -> None:
        await server.ann()
        done = await server.logins.by_password("ann", PASSWORD, IP)
        server.clock.time += 3600
        sessions = Ending(server.sessions._file)
        gate = Authenticator(server.accounts, sessions, server.clock)
        await refused(gate.admit(cookie(done)), "auth.required", 401)

    run(tmp_path, work)


def test_a_failed_sign_in_does_not_say_why(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        account = await server.ann()
        await server.people.add("robot", ["viewer"])
        disabled = await server.people.add("carl", ["viewer"], password=PASSWORD)
        await server.people.set_disabled(disabled.user_id, True)
        said = {
            (await refused(asking, "auth.failed", 401)).message
            for asking in (
                server.logins.by_password("ann", "wrong", IP),
                server.logins.by_password("ann", "", IP),
                server.logins.by_password("ann", PASSWORD * 500, IP),
                server.logins.by_password("bob", PASSWORD, IP),
                server.logins.by_password("../x", PASSWORD, IP),
                server.logins.by_password("robot", "", IP),
                server.logins.by_password("carl", PASSWORD, IP),
            )
        }
        assert said == {"the name or the password is wrong"}
        assert await server.sessions.list_by_user(account.user_id, now=NOW) == []

    run(tmp_path, work)


def test_ten_wrong_passwords_a_minute_are_enough(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        for name in ["ann"] * 5 + ["ANN"] * 5:
            asking = server.logins.by_password(name, "wrong", IP)
            await refused(asking, "auth.failed", 401)
        for name in ("ann", "bob"):
            for _ in range(10 if name == "bob" else 0):
                asking = server.logins.by_password(name, "wrong", IP)
                await refused(asking, "auth.failed", 401)
            asking = server.logins.by_password(name, PASSWORD, IP)
            error = await refused(asking, "auth.too_many", 429)
            assert error.retry_after == 60.0

        await server.logins.by_password("ann", PASSWORD, "10.0.0.8")
        server.clock.time += 60
        await server.logins.by_password("ann", PASSWORD, IP)

    run(tmp_path, work)


def test_an_address_that_tries_many_names_is_stopped(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        for _ in range(100):
            server.logins.count(IP)
        for _ in range(2):
            with pytest.raises(AccessError) as e:
                server.logins.count(IP)
            assert (e.value.kind, e.value.retry_after) == ("auth.too_many", 60.0)
        server.logins.count("10.0.0.8")

    run(tmp_path, work)


def test_an_old_hash_is_replaced_at_the_next_sign_in(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    async def work(server: Server) -> None:
        account = await server.ann()
        weak = Argon2id(
            salt=b"0" * 16, length=32, iterations=1, lanes=1, memory_cost=1024
        ).derive_phc_encoded(PASSWORD.encode())
        old = await server.accounts.set_password(account.user_id, weak)
        done = await server.logins.by_password("ann", PASSWORD, IP)

        now = await server.accounts.get(account.user_id)
        assert now is not None
        assert now.password_hash != old.password_hash
        await server.come(done)
        await server.logins.by_password("ann", PASSWORD, IP)

    run(tmp_path, work)


def test_whatever_changes_an_account_ends_its_sessions(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        account = await server.ann("viewer")
        other = await server.people.add("bob", ["viewer"], password=PASSWORD)
        stays = await server.logins.by_password("bob", PASSWORD, IP)
        for change in (
            lambda: server.people.set_roles(account.user_id, ["operator"]),
            lambda: server.people.set_password(account, PASSWORD + "!"),
            lambda: server.people.set_password(account, PASSWORD),
            lambda: server.people.set_disabled(account.user_id, False),
            lambda: server.people.remove(account),
        ):
            password = PASSWORD
            current = await server.accounts.get(account.user_id)
            assert current is not None
            if current.version == 3:
                password += "!"
            done = await server.logins.by_password("ann", password, IP)
            await change()
            await refused(server.come(done), "auth.required", 401)
        assert (await server.come(stays)).user_id == other.user_id

    run(tmp_path, work)


def test_a_change_during_a_sign_in_is_not_outrun(tmp_path: Path) -> None:
    """Roles are taken away between the look at the account and the new session."""

    class Slow(SqliteSessions):
        async def create(
            self, key: str, session: Session, *, now: float
        ) -> StoredSession:
            await people[0].set_roles(session.user_id, [])
            return await super().create(key, session, now=now)

    people: list[AccountService] = []

    async def work(server: Server) -> None:
        account = await server.ann("admin")
        people.append(server.people)
        slow = Slow(server.sessions._file)
        logins = SignInService(server.accounts, slow, Argon2Passwords(), server.clock)
        asking = logins.by_password("ann", PASSWORD, IP)
        error = await refused(asking, "auth.failed", 401)
        assert error.message == "the account was changed just now: sign in again"
        assert await server.sessions.list_by_user(account.user_id, now=NOW) == []

    run(tmp_path, work)


def test_a_change_without_the_sessions_store_says_what_is_left(tmp_path: Path) -> None:
    class Down(SqliteSessions):
        async def invalidate_user(self, user_id: str) -> int:
            raise AccessError("session.store_down", "NATS does not answer", 401)

    async def work(server: Server) -> None:
        account = await server.ann()
        down = Down(server.sessions._file)
        people = AccountService(server.accounts, down, Argon2Passwords(), server.clock)
        asking = people.set_disabled(account.user_id, True)
        error = await refused(asking, "session.store_down", 503)
        assert error.message == (
            "'ann' was changed, but its sessions remain: NATS does not answer; "
            "repeat the change when the store answers"
        )
        changed = await server.accounts.get(account.user_id)
        assert changed is not None
        assert changed.disabled

    run(tmp_path, work)


def test_a_token_has_its_accounts_rights_of_this_moment(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        account = await server.people.add("robot", ["operator"])
        text, token = await server.people.give_token(
            account.user_id, "ci", scopes=["operator:finance/*"], seconds=3600
        )
        principal = await server.gate.admit(bearer(text))
        assert allows(principal, "executions:run", "finance/x")
        assert not allows(principal, "executions:run", "hr/x")
        assert principal.credential == token.token_id

        await server.people.set_roles(account.user_id, ["viewer"])
        principal = await server.gate.admit(bearer(text))
        assert not allows(principal, "executions:run", "finance/x")

        (kept,) = await server.accounts.list_tokens(account.user_id)
        assert kept.last_used_at == NOW
        server.clock.time += 3600
        await refused(server.gate.admit(bearer(text)), "auth.required", 401)

    run(tmp_path, work)


def test_tokens_that_are_unknown_revoked_or_of_a_disabled_account_are_one(
    tmp_path: Path,
) -> None:
    async def work(server: Server) -> None:
        account = await server.people.add("robot", ["viewer"])
        text, token = await server.people.give_token(account.user_id, "a")
        other, _ = await server.people.give_token(account.user_id, "b")
        await server.accounts.revoke_token(token.token_id)
        await server.people.set_disabled(account.user_id, True)
        said = [
            await refused(server.gate.admit(credential), "auth.required", 401)
            for credential in (
                None,
                bearer(text),
                bearer(other),
                bearer("ntl_" + "0" * 64),
                Credential("session", bearer(other).digest),
            )
        ]
        assert len({error.message for error in said}) == 1

    run(tmp_path, work)


def test_a_worker_has_an_account_of_its_own(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        account = await server.people.add("worker-gpu", ["worker:gpu"])
        text, _ = await server.people.give_token(account.user_id, "box 1")
        principal = await server.gate.admit(bearer(text))
        assert allows(principal, "work:claim", "gpu")
        assert not allows(principal, "work:claim", "default")

    run(tmp_path, work)


@pytest.mark.spec("SES-03")
def test_oidc_makes_an_account_once_and_keeps_its_roles_fresh(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        both = await asyncio.gather(
            *(server.logins.by_identity(ANN, IP) for _ in range(2))
        )
        (account,) = await server.accounts.list_all()
        assert {done.session.user_id for done in both} == {account.user_id}
        session = both[0].session
        assert session.auth0_id == "auth0|7"
        assert session.email == "ann@example.com"
        assert session.client_ip == IP

        promoted = msgspec.structs.replace(ANN, grants=read_grants(["admin"]))
        done = await server.logins.by_identity(promoted, IP)
        assert allows(await server.come(done), "accounts:manage")
        for old in both:
            await refused(server.come(old), "auth.required", 401)

    run(tmp_path, work)


def test_oidc_does_not_match_accounts_by_name(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        local = await server.people.add(
            "ann@example.com", ["admin"], password=PASSWORD, email="ann@example.com"
        )
        done = await server.logins.by_identity(ANN, IP)
        assert done.session.user_id != local.user_id
        assert not allows(await server.come(done), "accounts:manage")

    run(tmp_path, work)


def test_oidc_lets_in_only_who_has_a_role_and_is_not_disabled(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        nobody = msgspec.structs.replace(ANN, grants=())
        asking = server.logins.by_identity(nobody, IP)
        error = await refused(asking, "auth.role", 403)
        assert (
            error.message
            == "ann@example.com has no role here; ask an admin to grant one"
        )
        assert await server.accounts.list_all() == []

        done = await server.logins.by_identity(ANN, IP)
        await server.people.set_disabled(done.session.user_id, True)
        await refused(server.logins.by_identity(ANN, IP), "auth.failed", 401)

    run(tmp_path, work)


def test_a_session_with_roles_of_another_version_is_none(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        done = await server.logins.by_password("ann", PASSWORD, IP)
        key = digest_session(done.token) or ""
        strange = msgspec.structs.replace(done.session, roles=("emperor",))
        await server.sessions.create(key, strange, now=NOW)
        await refused(server.come(done), "auth.required", 401)

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("name", "roles", "password", "message"),
    [
        ("a b", ["viewer"], PASSWORD, "'a b' is not a valid account name"),
        ("ann", ["viewr"], PASSWORD, "unknown role 'viewr'; did you mean 'viewer'"),
        ("ann", ["viewer"], "short", "the password is too short: it has 5 characters"),
        ("ann", ["viewer"], "Ann-42-password", "the password is mostly a common word"),
    ],
)
def test_a_mistake_is_explained_and_nothing_is_made(
    tmp_path: Path, name: str, roles: list[str], password: str, message: str
) -> None:
    async def work(server: Server) -> None:
        with pytest.raises(AccessError) as e:
            await server.people.add(name, roles, password=password)
        assert e.value.status == 422
        assert e.value.message.startswith(message)
        assert await server.accounts.list_all() == []

    run(tmp_path, work)


def test_an_account_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        error = await refused(server.people.find("Bob"), "account.unknown", 404)
        assert error.message == "unknown account 'bob'"
        made = await server.ann()
        assert await server.people.find("ANN") == made

    run(tmp_path, work)


def test_a_configured_lifetime_is_respected(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        parts = (server.accounts, server.sessions, Argon2Passwords(), server.clock)
        logins = SignInService(*parts, lifetime=Lifetime(ttl=60.0))
        done = await logins.by_password("ann", PASSWORD, IP)
        assert done.session.expires_at == NOW + 60

    run(tmp_path, work)


def test_an_address_of_one_use_opens_one_session(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        account = await server.ann()
        code = server.logins.invite(account.user_id)
        done = await server.logins.by_invitation(code, IP)
        assert (await server.come(done)).user_id == account.user_id

        late = server.logins.invite(account.user_id)
        server.clock.time += 60
        for wrong in (code, late, "", "\ud800"):
            await refused(server.logins.by_invitation(wrong, IP), "auth.failed", 401)

        early = server.logins.invite(account.user_id)
        await server.people.set_disabled(account.user_id, True)
        await refused(server.logins.by_invitation(early, IP), "auth.failed", 401)

    run(tmp_path, work)


def test_the_token_of_a_home_is_an_admins_and_its_last_one_counts(
    tmp_path: Path,
) -> None:
    async def work(server: Server) -> None:
        old, new, other = (mint(API, bytes([n]) * 32) for n in range(3))
        for home, token in (("a", old), ("b", other), ("a", new), ("a", new)):
            await server.people.ensure_home_account(home, token)
        for token in (new, other):
            who = await server.gate.admit(bearer(token))
            assert allows(who, "accounts:manage")
            assert allows(who, "work:claim", "gpu")
        await refused(server.gate.admit(bearer(old)), "auth.required", 401)
        assert [account.name for account in await server.accounts.list_all()] == [
            "local"
        ]
        assert not await server.people.has_others()
        ann = await server.ann()
        assert await server.people.has_others()
        await server.people.set_disabled(ann.user_id, True)
        assert not await server.people.has_others()

    run(tmp_path, work)


def test_without_nats_sessions_fail_and_tokens_go_on(
    tmp_path: Path, start_nats: Callable[..., NatsServer]
) -> None:
    async def work(server: Server) -> None:
        await server.ann()
        nats_server = start_nats()
        client = await nats.connect(nats_server.address, allow_reconnect=False)
        sessions = NatsSessions(lambda: client)
        parts = (server.accounts, sessions, Argon2Passwords(), server.clock)
        gate = Authenticator(server.accounts, sessions, server.clock)
        done = await SignInService(*parts).by_password("ann", PASSWORD, IP)
        token = mint(API, bytes(32))
        await server.people.ensure_home_account("a", token)
        assert (await gate.admit(cookie(done))).means == "session"
        nats_server.kill()

        await refused(gate.admit(cookie(done)), "session.store_down", 401)
        signing_in = SignInService(*parts).by_password("ann", PASSWORD, IP)
        await refused(signing_in, "session.store_down", 401)
        assert (await gate.admit(bearer(token))).means == "token"
        await client.close()

    run(tmp_path, work)

"""Accounts in PostgreSQL: what one server is told, all of them know."""

from __future__ import annotations

from pathlib import Path

from servers import Api, Running

PASSWORD = "correct horse battery"


def test_servers_on_one_database_have_the_same_accounts(
    tmp_path: Path, postgres: str
) -> None:
    one = Running(tmp_path / "one", database=postgres, slots=0)
    two = Running(tmp_path / "two", database=postgres, slots=0)
    try:
        here, there = Api(one.url, one.token), Api(two.url, two.token)
        assert one.token != two.token
        assert Api(two.url, one.token).get("/api/users").status == 200
        for name in ("ann", "bob"):
            body = {"name": name, "roles": ["viewer"], "password": PASSWORD}
            assert here.post("/api/users", body).status == 201
        cookies = {}
        for name in ("ann", "bob"):
            body = {"name": name, "password": PASSWORD}
            answer = Api(two.url, None).post("/api/sessions", body)
            cookies[name] = answer.headers["set-cookie"].split(";")[0]
            signed_in = Api(two.url, None).get("/api/executions", Cookie=cookies[name])
            assert signed_in.status == 200

        here.post("/api/users/ann/roles", {"roles": ["operator"]})
        here.call("DELETE", "/api/users/bob")

        for cookie in cookies.values():
            answer = Api(two.url, None).get("/api/executions", Cookie=cookie)
            assert answer.status == 401
        names = [each["name"] for each in there.get("/api/users").body["users"]]
        assert names == ["ann", "local"]
    finally:
        one.stop()
        two.stop()

"""Print the events of a store as JSON: see docs/reference/log-format.md."""

import asyncio
import base64
import hashlib
import json
import sqlite3
import sys

import zstandard

MEMBERS = """event_id execution_id seq timestamp source name entity_type entity_id
parent_id status step step_run_id iteration_id task_run_id task_label attempt action_id
payload"""
ROWS = """SELECT execution_id, seq, events, dictionary, hash, body FROM execution JOIN
(SELECT {0}, 1 AS events, NULL AS dictionary, hash, body FROM event UNION ALL
 SELECT {1}, events, dictionary, hash, body FROM batch) AS log USING (number)
WHERE execution_id LIKE '{2}' ORDER BY number, seq"""


async def main(store, execution="%", log=None):
    if "://" in store:
        db = await __import__("asyncpg").connect(store)
        await db.execute("SET search_path = noetl")
        places = "execution AS number, seq", "execution AS number, last_seq"
        rows = await db.fetch(ROWS.format(*places, execution))
        known = dict(await db.fetch("SELECT number, body FROM dictionary"))
    else:
        db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        place = "key >> 32 AS number, key & 4294967295 AS seq"
        rows = db.execute(ROWS.format(place, place, execution))
        known = dict(db.execute("SELECT number, body FROM dictionary"))
    for name, last, count, number, recorded, body in rows:
        if name != log:
            log, seq, link, trace = name, 0, b"", None
        head = b"" if number is None else b"%d %d " % (count, number)
        link = hashlib.sha256(link + head + body).digest()[: len(recorded)]
        if link != recorded or last != seq + count:
            sys.exit(f"{name}: of the events {seq + 1} to {last} one is damaged")
        if number is not None:
            dictionary = zstandard.ZstdCompressionDict(known[number])
            body = zstandard.ZstdDecompressor(dictionary).decompress(body)
        lines = body.decode().replace("\2", name.replace("-", "")).replace("\1", name)
        for seq, line in enumerate(lines.split("\n"), seq + 1):  # noqa: B020
            it = {"payload": {}, "action_id": "", "task_run_id": ""} | json.loads(line)
            it = dict.fromkeys(MEMBERS.split()) | it
            run, kind = it["step_run_id"], it["name"].split(".")[0]
            if it["task_run_id"] == "" and kind == "task":
                it["task_run_id"] = f"{it['iteration_id'] or run}:{it['task_label']}.1"
            if it["action_id"] == "" and kind == "task" and it["name"][5:] != "resumed":
                path = [int(n) for n in (it["iteration_id"] or "").split("/")[1:]]
                _, _, visit = it["task_run_id"].rpartition(".")
                parts = [name, run, "", it["task_label"], path, int(visit), 0]
                text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
                digest = hashlib.sha256(text.encode()).digest()
                it["action_id"] = "a1" + base64.b32encode(digest)[:26].decode().lower()
            it |= {each: it[each] or None for each in ("task_run_id", "action_id")}
            kind = {"token": "step", "message": "workflow"}.get(kind, kind)
            usual = {"step": (run, name), "task": (it["task_run_id"], run)}
            usual |= {"next": (run, run), "loop": (it["iteration_id"] or run, run)}
            if it["entity_id"] is None:
                it["entity_id"], it["parent_id"] = usual.get(kind, (name, None))
            it |= {"event_id": f"{name}.{seq}", "execution_id": name}
            it |= {"seq": seq, "entity_type": kind}
            it["trace_id"] = trace = trace or it["payload"]["trace_id"]
            span = it["entity_id"] + f"#{it['attempt']}".replace("#None", "")
            it["span_id"] = hashlib.blake2b(span.encode(), digest_size=8).hexdigest()
            print(json.dumps(it, ensure_ascii=False, separators=(",", ":")))


asyncio.run(main(*sys.argv[1:]))

"""``/healthz``, ``/readyz``, ``/metrics``: for whoever watches the server."""

from __future__ import annotations

from starlette.responses import Response

from noetl.api.metrics import MEDIA_TYPE
from noetl.api.routing import PUBLIC, Call, Nothing, Reply, Routes
from noetl.api.shapes import Health

routes = Routes()


@routes.route("GET", "/healthz", permission=PUBLIC, answers={200: Health})
async def show_health(call: Call[Nothing, Nothing]) -> Reply:
    """The process is alive."""
    return Reply(200, {"status": "ok", "reason": None})


@routes.route("GET", "/readyz", permission=PUBLIC, answers={200: Health, 503: Health})
async def show_readiness(call: Call[Nothing, Nothing]) -> Reply:
    """The store answers and workers are at work, or what is missing.

    `isolation` is `sandbox` if code of playbooks runs in one, `refused` if it must and
    cannot, `off` while the server has no accounts, `none` if an operator switched it
    off.
    """
    reason, isolation = await call.site.ready(), await call.site.isolation()
    status = "ready" if reason is None else "unavailable"
    about = {"status": status, "reason": reason, "isolation": isolation}
    return Reply(200 if reason is None else 503, about)


@routes.route(
    "GET",
    "/metrics",
    permission="workers:read",
    answers={200: None},
    media=("text/plain",),
)
async def show_metrics(call: Call[Nothing, Nothing]) -> Response:
    """Figures for Prometheus."""
    return Response(call.site.metrics.text(), media_type=MEDIA_TYPE)

"""Orders of a shop, page by page or one by one."""

from __future__ import annotations

from aiohttp import web

from answers import Refusal, page_of

CUSTOMERS = ("ada", "grace", "edsger", "barbara")
ORDERS = [
    {
        "id": number,
        "customer": CUSTOMERS[number % len(CUSTOMERS)],
        "amount": 10 * number,
        "paid": number % 3 != 0,
    }
    for number in range(1, 11)
]


class Orders:
    def routes(self) -> list[web.RouteDef]:
        return [web.get("/orders", self.list), web.get("/orders/{id}", self.get)]

    async def list(self, request: web.Request) -> web.Response:
        """`?page=1&size=3`: a page of ten orders; pages 1 and 3 fail once."""
        return page_of(request, "orders", ORDERS)

    async def get(self, request: web.Request) -> web.Response:
        """One order; 404 unless it is one of 1 to 10."""
        for order in ORDERS:
            if str(order["id"]) == request.match_info["id"]:
                return web.json_response(order)
        raise Refusal(404, f"there is no order {request.match_info['id']!r:.40}")

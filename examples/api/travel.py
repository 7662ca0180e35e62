"""Cities, and their hotels page by page."""

from __future__ import annotations

from aiohttp import web

from answers import Refusal, page_of

# Two of them have no hotels: Atlantis was never found (404), Pompeii is gone (410).
CITIES = {
    "atlantis": "the sea",
    "cairo": "Egypt",
    "kyoto": "Japan",
    "lima": "Peru",
    "oslo": "Norway",
    "pompeii": "Italy",
    "quito": "Ecuador",
    "rome": "Italy",
}
NAMES = {
    "cairo": "Nile, Garden",
    "kyoto": "Maple, Lantern, Bamboo, Crane",
    "lima": "Miraflores, Barranco, Pacific, Plaza, Condor",
    "oslo": "Fjord, Harbour, Nordlys",
    "quito": "Andes, Equator, Alameda, Carolina, Pichincha, Volcano",
    "rome": "Aurelia, Trevi, Forum, Tiber, Bramante, Appia, Pantheon",
}


def hotels_of(city: str) -> list[dict[str, object]]:
    """The hotels of a city, the cheapest first."""
    return [
        {
            "id": f"{city}-{number}",
            "name": name,
            "price": 60 + 15 * number,
        }
        for number, name in enumerate(NAMES[city].split(", "), start=1)
    ]


class Travel:
    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/cities", self.cities),
            web.get("/cities/{city}/hotels", self.hotels),
        ]

    async def cities(self, request: web.Request) -> web.Response:
        """All cities."""
        found = [{"id": city, "country": CITIES[city]} for city in CITIES]
        return web.json_response({"cities": found})

    async def hotels(self, request: web.Request) -> web.Response:
        """`?page=1&size=3`: a page of hotels; each page fails twice before it comes."""
        city = request.match_info["city"]
        if city == "pompeii":
            raise Refusal(410, "no hotel of pompeii is left")
        if city not in NAMES:
            raise Refusal(404, f"no hotels are known in {city!r:.40}")
        return page_of(request, "hotels", hotels_of(city))

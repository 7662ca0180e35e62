"""Cities, their hotels page by page, and the rooms of a hotel page by page."""

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
# Two hotels have no rooms: one is closed for the season (404), one is no more (410).
CLOSED, BURNT = "kyoto-3", "quito-6"


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


def rooms_of(hotel: str) -> list[dict[str, object]]:
    """The first hotel of a city has two rooms, the second three, and so on."""
    number = int(hotel.rpartition("-")[2])
    return [
        {"id": f"{hotel}/{room}", "beds": 1 + room % 3, "free": room % 2 == 1}
        for room in range(1, number + 2)
    ]


class Travel:
    def __init__(self) -> None:
        hotels = (hotel for city in NAMES for hotel in hotels_of(city))
        self._hotels = {str(hotel["id"]) for hotel in hotels}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/cities", self.cities),
            web.get("/cities/{city}/hotels", self.hotels),
            web.get("/hotels/{hotel}/rooms", self.rooms),
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

    async def rooms(self, request: web.Request) -> web.Response:
        """`?page=1&size=3`: a page of rooms; each second page fails once."""
        hotel = request.match_info["hotel"]
        if hotel == BURNT:
            raise Refusal(410, f"{hotel} has burnt down")
        if hotel == CLOSED or hotel not in self._hotels:
            raise Refusal(404, f"{hotel!r:.40} has no rooms to let")
        return page_of(request, "rooms", rooms_of(hotel))

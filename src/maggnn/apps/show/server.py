"""The page and its JSON endpoints, which are plain functions, so that models do not block the event loop."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import webbrowser
from collections.abc import Callable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from maggnn.apps.explain.trace import MOST_MOVES, Policy
from maggnn.apps.show.card import read_card, read_picture
from maggnn.apps.show.gallery import Gallery
from maggnn.apps.show.guard import Guard
from maggnn.apps.show.log import new_lines
from maggnn.apps.show.moves import metric_after_moves
from maggnn.apps.show.runs import LOG, MODEL, MOST_RUNS, Run, as_utf8, find_runs
from maggnn.apps.show.shelf import Shelf
from maggnn.apps.show.web import add_errors, address_of, listening
from maggnn.errors import InputError
from maggnn.model import weights_file

PAGES = {
    "index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript", "asking.js": "text/javascript",
    "curves.js": "text/javascript", "picture.js": "text/javascript", "playing.js": "text/javascript",
    "answers.js": "text/javascript", "card.js": "text/javascript",
}  # fmt: skip
"""The static files that are served, and their content types."""

DIGITS = 7
"""The number of digits in JSON; float32 has no more."""

FRESH_S = 0.9
"""The seconds for which a list of runs is cached: searching hundreds of folders takes longer than most requests."""

Name = Annotated[str, Field(max_length=1000)]
Number = Annotated[int, Field(ge=0, le=10_000)]
Marks = Annotated[list[Annotated[list[int], Field(max_length=16)]], Field(max_length=256)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class StartQuestion(BaseModel):
    """Marks before the first move."""

    run: Name
    graph: Number
    seed: Seed = 0
    at_random: bool = False


class PlaceQuestion(BaseModel):
    """Marks by hand, [m][k]."""

    run: Name
    graph: Number
    tuples: Marks


class WalkQuestion(PlaceQuestion):
    """Moves from these marks."""

    moves: Annotated[int, Field(ge=1, le=MOST_MOVES)] = 1
    policy: Policy = "agent"
    seed: Seed = 0


class MoleculeQuestion(BaseModel):
    """A molecule for the gallery."""

    run: Name
    smiles: Annotated[str, Field(min_length=1, max_length=2000)]


class Site:
    """The state that endpoints share: the folder that is shown, and the open galleries."""

    def __init__(self, root: Path, molecules: Path | None = None) -> None:
        self.root, self.shelf = root, Shelf(molecules)
        self._found: tuple[float, dict[str, Run]] = (-math.inf, {})
        self._measuring = threading.Lock()

    def runs(self) -> dict[str, Run]:
        """Return the current runs, possibly from the cache."""
        at, found = self._found
        if time.monotonic() - at > FRESH_S:
            found = find_runs(self.root)
            self._found = (time.monotonic(), found)
        return found

    def run(self, name: str) -> Run:
        """Return a run by its name. Names are searched among those that were found, and never joined to a path."""
        runs = self.runs()
        if name not in runs:
            raise InputError(f"no run {name!r} here")
        return runs[name]

    def gallery(self, name: str) -> Gallery:
        return self.shelf.gallery(self.run(name))

    def measured(self, name: str) -> dict[str, Any]:
        gallery = self.gallery(name)
        with self._measuring:  # simultaneous requests share one measurement
            if gallery.measured is None:
                gallery.measured = metric_after_moves(gallery)
            return gallery.measured


def make_app(root: Path, molecules: Path | None = None, host: str = "127.0.0.1") -> FastAPI:
    """Make the application for the runs in `root`; a single run's model is loaded now, to find damage at once."""
    site = Site(root, molecules)
    _check(site)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, host=host)  # pyright: ignore[reportArgumentType]
    add_errors(app)
    _add_pages(app)
    _add_reading(app, site)
    _add_playing(app, site)
    return app


def _check(site: Site) -> None:
    runs = site.runs()
    if site.shelf.molecules is not None:
        fitted = [run for run in runs.values() if run.fitted]
        if not fitted:
            raise InputError(f"{site.root}: --molecules is for models of `maggnn fit`, but there is none")
        site.shelf.gallery(fitted[0])
    elif len(runs) == 1 and (run := next(iter(runs.values()))).model_version:
        weights_file.load(run.folder / MODEL)  # its data set may be missing, but curves can be shown without it


def _add_pages(app: FastAPI) -> None:
    folder = files("maggnn.apps.show") / "page"
    for name, kind in PAGES.items():
        answer = _constant((folder / name).read_bytes(), f"{kind}; charset=utf-8")
        app.add_api_route("/" if name == "index.html" else f"/{name}", answer, methods=["GET"])


def _constant(content: bytes, kind: str) -> Callable[[], Response]:
    def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


def _add_reading(app: FastAPI, site: Site) -> None:
    """Add the endpoints that read runs, their logs and their graphs."""

    @app.get("/api/runs")
    def runs() -> Response:
        entries = [{"name": run.name, "stage": run.stage()} for run in site.runs().values()]
        return _json({"folder": str(site.root), "runs": entries})

    @app.get("/api/run")
    def run(run: str) -> Response:
        return _json(site.run(run).facts())

    @app.get("/api/metrics")
    def metrics(run: str, place: str = "") -> Response:
        return _json(asdict(new_lines(site.run(run).folder / LOG, place)))

    @app.get("/api/moves")
    def moves(run: str) -> Response:
        return _json(site.measured(run))

    @app.get("/api/card")
    def card(run: str) -> Response:
        return _json(read_card(site.run(run).folder))

    @app.get("/api/card-picture")
    def card_picture(run: str) -> Response:
        return Response(read_picture(site.run(run).folder), media_type="image/png")

    @app.get("/api/gallery")
    def gallery(run: str) -> Response:
        return _json(site.gallery(run).facts())

    @app.get("/api/graph")
    def graph(run: str, graph: int) -> Response:
        return _json(site.gallery(run).picture(graph))


def _add_playing(app: FastAPI, site: Site) -> None:
    """Add the endpoints that depend on marks."""

    @app.post("/api/start")
    def start(question: StartQuestion) -> Response:
        gallery = site.gallery(question.run)
        return _json(asdict(gallery.start(question.graph, question.seed, question.at_random)))

    @app.post("/api/place")
    def place(question: PlaceQuestion) -> Response:
        return _json(asdict(site.gallery(question.run).place(question.graph, question.tuples)))

    @app.post("/api/walk")
    def walk(question: WalkQuestion) -> Response:
        gallery = site.gallery(question.run)
        steps = gallery.walk(question.graph, question.tuples, question.moves, question.policy, question.seed)
        return _json({"steps": [asdict(step) for step in steps]})

    @app.post("/api/molecule")
    def molecule(question: MoleculeQuestion) -> Response:
        return _json({"graph": site.shelf.add(site.run(question.run), question.smiles.strip())})


def _json(value: Any) -> Response:
    return JSONResponse(_plain(value))


def _plain(value: Any) -> Any:
    """Round numbers to their precision, and escape what is no character; None for values that JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, str):
        return as_utf8(value)
    if isinstance(value, dict):
        return {as_utf8(name): _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def serve(root: Path, host: str, port: int, molecules: Path | None, open_page: bool) -> None:
    """Serve until interrupted."""
    with listening(host, port) as listener:
        app = make_app(root, molecules, host)
        address = address_of(host, listener)
        most = f"the first {MOST_RUNS} runs in " if len(find_runs(root)) == MOST_RUNS else ""
        print(f"{address} shows {most}{root}; Ctrl-C ends it", flush=True)
        if open_page:
            threading.Timer(0.5, webbrowser.open, (address,)).start()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
